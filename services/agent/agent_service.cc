#include "services/agent/agent_service.h"

#include <tuple>
#include <utility>

#include "libs/base/version.h"
#include "libs/server/call.h"
#include "libs/wire/session.h"
#include "services/agent/run_messages.h"
#include "services/agent/session_reactor.h"

namespace callboard {

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* AgentService::Session(
    grpc::CallbackServerContext*) {
  return new SessionReactor(driver_, on_session_end_);
}

grpc::ServerUnaryReactor* AgentService::StartTask(grpc::CallbackServerContext* context,
                                                  const v1::StartTaskRequest* request,
                                                  v1::StartTaskResponse* response) {
  const auto start = [&](const server::UnaryCall<v1::StartTaskResponse>& call) {
    absl::StatusOr<core::SpecPtr> spec = SpecFrom(*request);
    if (!spec.ok()) return call.Finish(spec.status());
    driver_.StartDirect(*std::move(spec), call.trace(),
                        [call](const absl::StatusOr<agent::DirectStart>& begun) {
                          if (!begun.ok()) return call.Finish(begun.status());
                          call.Finish(ToProto(*begun));
                        });
  };
  return server::Unary(context, response, start,
                       {.tracer = &tracer_, .method = "callboard.v1.AgentService/StartTask"});
}

grpc::ServerUnaryReactor* AgentService::GetTask(grpc::CallbackServerContext* context,
                                                const v1::AgentServiceGetTaskRequest* request,
                                                v1::AgentRun* response) {
  const auto get = [&](const server::UnaryCall<v1::AgentRun>& call) {
    absl::StatusOr<std::string> task_id = TaskIdFrom(*request);
    if (!task_id.ok()) return call.Finish(task_id.status());
    driver_.GetRun(*std::move(task_id), [call](const absl::StatusOr<agent::RunView>& run) {
      if (!run.ok()) return call.Finish(run.status());
      call.Finish(ToProto(*run));
    });
  };
  return server::Unary(context, response, get);
}

grpc::ServerWriteReactor<v1::TailLogsResponse>* AgentService::TailLogs(
    grpc::CallbackServerContext* context, const v1::TailLogsRequest* request) {
  const auto tail = [&](const server::StreamCall<v1::TailLogsResponse>& call) {
    absl::StatusOr<agent::OutputQuery> query = OutputQueryFrom(*request);
    if (!query.ok()) return call.Finish(query.status());
    const auto show = [call](const core::OutputWritten& piece) {
      // A stream that is over says so through its hook.
      std::ignore = call.Write(ToProto(piece));
    };
    const auto end = [call](absl::Status status) { call.Finish(std::move(status)); };
    const agent::ReaderId reader = driver_.NextReader();
    call.OnSent([this, reader] { driver_.GoOn(reader); });
    driver_.ReadOutput(reader, *std::move(query), {show, end});
    call.OnAbandoned([this, reader] { driver_.StopReading(reader); });
  };
  return server::Stream<v1::TailLogsResponse>(context, tail, {.budget = &budget_});
}

grpc::ServerUnaryReactor* AgentService::GetAgentStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetAgentStatusRequest*,
                                                       v1::AgentStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::AgentStatus>& call) {
    driver_.GetView([call](const absl::StatusOr<agent::AgentView>& view) {
      if (!view.ok()) return call.Finish(view.status());
      call.Finish(ToProto(*view));
    });
  });
}

v1::AgentStatus ToProto(const agent::AgentView& view) {
  v1::AgentStatus status;
  status.set_name(view.name);
  status.set_instance_id(view.instance_id);
  status.set_version(std::string(base::kVersion));
  wire::WriteLanes(view.lanes, status);
  status.mutable_labels()->insert(view.labels.begin(), view.labels.end());
  status.set_connected(view.connected);
  status.set_director_epoch(view.director_epoch);
  status.set_draining(view.draining);
  for (const agent::RunView& run : view.runs) {
    *status.add_runs() = ToProto(run);
    status.add_running_task_ids(status.runs().rbegin()->task_id());
  }
  status.set_unacknowledged_results(static_cast<uint32_t>(view.unacknowledged_results));
  return status;
}

}  // namespace callboard
