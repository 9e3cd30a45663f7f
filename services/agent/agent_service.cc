#include "services/agent/agent_service.h"

#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/error.h"
#include "libs/base/version.h"
#include "libs/server/call.h"
#include "libs/wire/session.h"
#include "libs/wire/status.h"
#include "services/agent/run_messages.h"

namespace callboard {

// The stream that the driver writes to. Thread-safe.
class SessionReactor::DriverStream final : public agent::SessionStream {
 public:
  explicit DriverStream(SessionReactor& reactor) : reactor_(&reactor) {}

  void Send(absl::Span<const core::AgentMessage> messages) override {
    std::vector<v1::SessionResponse::Item> items;
    items.reserve(messages.size());
    for (const core::AgentMessage& message : messages) items.push_back(wire::ToProto(message));
    base::MutexLock lock(mutex_);
    if (end_.has_value()) return;
    for (v1::SessionResponse::Item& item : items) {
      if (item.has_logs()) {
        outgoing_.AddOutput(std::move(item));
      } else {
        outgoing_.Add(std::move(item));
      }
    }
    WriteNext();
  }

  void End(const absl::Status& why) override {
    base::MutexLock lock(mutex_);
    if (end_.has_value()) return;
    end_ = why;
    WriteNext();
  }

  void OnWritten(bool ok) {
    base::MutexLock lock(mutex_);
    writing_ = false;
    if (!ok && !end_.has_value()) end_ = absl::CancelledError("the director has left");
    WriteNext();
  }

  // The reactor is not used after this.
  void Detach() {
    base::MutexLock lock(mutex_);
    reactor_ = nullptr;
    if (!end_.has_value()) end_ = absl::CancelledError("the director has left");
  }

 private:
  // Starts the next write or finishes the stream. gRPC reports completion on another thread, so it
  // does not call back while mutex_ is held.
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reactor_ == nullptr || writing_ || finished_) return;
    if (end_.has_value()) {
      finished_ = true;
      reactor_->Finish(wire::ToGrpc(*end_));
    } else if (!outgoing_.empty()) {
      current_ = outgoing_.TakeMessage();
      writing_ = true;
      reactor_->StartWrite(&current_);
    }
  }

  base::Mutex mutex_;
  SessionReactor* reactor_ ABSL_GUARDED_BY(mutex_);
  wire::OutgoingItems<v1::SessionResponse> outgoing_ ABSL_GUARDED_BY(mutex_);
  v1::SessionResponse current_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

SessionReactor::SessionReactor(agent::AgentDriver& driver, std::function<void()> on_end)
    : driver_(driver), on_end_(std::move(on_end)), stream_(std::make_shared<DriverStream>(*this)) {
  StartRead(&incoming_);
}

absl::Status SessionReactor::HandleMessage() {
  std::vector<core::DirectorMessage> messages;
  for (const v1::SessionRequest::Item& item : incoming_.items()) {
    ASSIGN_OR_RETURN(core::DirectorMessage message, wire::FromProto(item));
    // An item of a later version may come before `open`.
    if (!session_.has_value() && std::holds_alternative<core::UnknownItem>(message)) continue;
    const auto* terms = std::get_if<core::SessionTerms>(&message);
    if (terms != nullptr && !session_.has_value()) {
      session_ = driver_.OpenSession(stream_, *terms);
    } else if (terms == nullptr && session_.has_value()) {
      messages.push_back(std::move(message));
    } else {
      return base::WithReason(
          absl::InvalidArgumentError("a Session must begin with `open`, which is sent only once"),
          "BAD_SESSION");
    }
  }
  if (!messages.empty()) driver_.Handle(*session_, std::move(messages));
  return absl::OkStatus();
}

void SessionReactor::OnReadDone(bool ok) {
  // The director has closed its side of the stream.
  if (!ok) return stream_->End(absl::OkStatus());
  if (const absl::Status handled = HandleMessage(); !handled.ok()) return stream_->End(handled);
  StartRead(&incoming_);
}

void SessionReactor::OnWriteDone(bool ok) { stream_->OnWritten(ok); }

void SessionReactor::OnCancel() { stream_->End(absl::CancelledError("the director has left")); }

void SessionReactor::OnDone() {
  stream_->Detach();
  if (session_.has_value()) {
    driver_.OnSessionClosed(*session_);
    on_end_();
  }
  delete this;
}

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* AgentService::Session(
    grpc::CallbackServerContext*) {
  return new SessionReactor(driver_, on_session_end_);
}

grpc::ServerUnaryReactor* AgentService::StartTask(grpc::CallbackServerContext* context,
                                                  const v1::StartTaskRequest* request,
                                                  v1::StartTaskResponse* response) {
  const auto start = [&](const server::UnaryCall<v1::StartTaskResponse>& call) {
    absl::StatusOr<agent::DirectStart> direct = StartFrom(*request);
    if (!direct.ok()) return call.Finish(direct.status());
    direct->trace = call.trace();
    driver_.StartDirect(*std::move(direct),
                        [call](const absl::StatusOr<agent::DirectStartResult>& started) {
                          if (!started.ok()) return call.Finish(started.status());
                          call.Finish(ToProto(*started));
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
    const auto write_output = [call](const core::RunOutput& output) {
      // The abandon hook handles a stream that has ended.
      std::ignore = call.Write(ToProto(output));
    };
    const auto end = [call](absl::Status status) { call.Finish(std::move(status)); };
    const agent::ReaderId reader = driver_.NextReader();
    call.SetSentHook([this, reader] { driver_.ReadNext(reader); });
    driver_.ReadOutput(reader, *std::move(query), {write_output, end});
    call.SetAbandonHook([this, reader] { driver_.StopReading(reader); });
  };
  return server::Stream<v1::TailLogsResponse>(context, tail, {.budget = &budget_});
}

grpc::ServerUnaryReactor* AgentService::GetAgentStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetAgentStatusRequest*,
                                                       v1::AgentStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::AgentStatus>& call) {
    driver_.GetSnapshot([call](const absl::StatusOr<agent::AgentSnapshot>& snapshot) {
      if (!snapshot.ok()) return call.Finish(snapshot.status());
      call.Finish(ToProto(*snapshot));
    });
  });
}

v1::AgentStatus ToProto(const agent::AgentSnapshot& snapshot) {
  v1::AgentStatus status;
  status.set_name(snapshot.name);
  status.set_instance_id(snapshot.instance_id);
  status.set_version(std::string(base::kVersion));
  wire::WriteLanes(snapshot.lanes, status);
  status.mutable_labels()->insert(snapshot.labels.begin(), snapshot.labels.end());
  status.set_connected(snapshot.connected);
  status.set_director_epoch(snapshot.director_epoch);
  status.set_draining(snapshot.draining);
  for (const agent::RunView& run : snapshot.runs) {
    *status.add_runs() = ToProto(run);
    status.add_running_task_ids(status.runs().rbegin()->task_id());
  }
  status.set_unacknowledged_results(static_cast<uint32_t>(snapshot.unacknowledged_results));
  return status;
}

}  // namespace callboard
