// What can be asked of tasks.
#include <memory>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/server/call.h"
#include "libs/wire/page.h"
#include "libs/wire/task.h"
#include "libs/wire/task_view.h"
#include "services/director/event_list.h"
#include "services/director/explanation.h"
#include "services/director/log_tail.h"
#include "services/director/queue_calls.h"
#include "services/director/queue_service.h"
#include "services/director/session_list.h"
#include "services/director/task_list.h"
#include "services/director/watch_list.h"

namespace callboard {

grpc::ServerUnaryReactor* QueueService::GetTask(grpc::CallbackServerContext* context,
                                                const v1::GetTaskRequest* request,
                                                v1::Task* response) {
  return server::Unary(context, response, [&](const server::UnaryCall<v1::Task>& call) {
    const absl::StatusOr<core::QueueId> id = QueueIdFrom(request->queue_id());
    if (!id.ok()) return call.Finish(id.status());
    const bool is_full = request->view() == v1::TASK_VIEW_FULL;
    driver_.GetTask(*id, [call, is_full](const absl::StatusOr<core::Task>& task) {
      if (!task.ok()) return call.Finish(task.status());
      v1::Task proto = wire::ToProto(*task);
      if (!is_full) wire::MakeBasic(proto);
      call.Finish(std::move(proto));
    });
  });
}

grpc::ServerUnaryReactor* QueueService::ListTasks(grpc::CallbackServerContext* context,
                                                  const v1::ListTasksRequest* request,
                                                  v1::ListTasksResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListTasksResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::ListQuery> query = ListQueryFrom(scope.Opened(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListTasks(*query, [call, scope](const absl::StatusOr<director::TaskPage>& page) {
      if (!page.ok()) return call.Finish(page.status());
      call.Finish(scope.Sealed(ListResponse(*page)));
    });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* QueueService::ListSessions(grpc::CallbackServerContext* context,
                                                     const v1::ListSessionsRequest* request,
                                                     v1::ListSessionsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListSessionsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::SessionQuery> query = SessionQueryFrom(scope.Opened(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.Ask<director::SessionPage>(
        director::Command::Need::kRead,
        [query = *query](director::DirectorEngine& engine, director::Moment) {
          return engine.ListSessions(query);
        },
        [call, scope](const absl::StatusOr<director::SessionPage>& page) {
          if (!page.ok()) return call.Finish(page.status());
          call.Finish(scope.Sealed(ListResponse(*page)));
        });
  };
  return server::Unary(context, response, list);
}

grpc::ServerWriteReactor<v1::WatchTasksResponse>* QueueService::WatchTasks(
    grpc::CallbackServerContext* context, const v1::WatchTasksRequest* request) {
  const auto watch = [&](const server::StreamCall<v1::WatchTasksResponse>& call) {
    absl::StatusOr<director::WatchQuery> query = WatchQueryFrom(*request);
    if (!query.ok()) return call.Finish(query.status());
    const auto show = [call](const director::Watched& watched) {
      // A stream that is over says so through its hook.
      std::ignore = call.Write(ToProto(watched));
    };
    const auto end = [call](absl::Status status) { call.Finish(std::move(status)); };
    const auto begun =
        driver_.WatchTasks(*std::move(query), {show, end, [call] { call.CutOff(); }});
    call.OnSent([begun] { begun->GoOn(); });
    call.OnAbandoned([begun] { begun->Stop(); });
    begun->Begin();
  };
  return server::Stream<v1::WatchTasksResponse>(context, watch, {.budget = &budget_});
}

grpc::ServerWriteReactor<v1::TailTaskLogsResponse>* QueueService::TailTaskLogs(
    grpc::CallbackServerContext* context, const v1::TailTaskLogsRequest* request) {
  const auto tail = [&](const server::StreamCall<v1::TailTaskLogsResponse>& call) {
    const absl::StatusOr<adapters::OutputKeeper::Wanted> wanted = WantedFrom(*request);
    if (!wanted.ok()) return call.Finish(wanted.status());
    std::make_shared<LogTail>(call, LogTail::Desk{driver_, outputs_, clock_}, *wanted)->Begin();
  };
  return server::Stream<v1::TailTaskLogsResponse>(context, tail, {.budget = &budget_});
}

grpc::ServerUnaryReactor* QueueService::ListTaskEvents(grpc::CallbackServerContext* context,
                                                       const v1::ListTaskEventsRequest* request,
                                                       v1::ListTaskEventsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListTaskEventsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::EventQuery> query = EventQueryFrom(scope.Opened(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListTaskEvents(*query, [call, scope](const absl::StatusOr<director::EventPage>& page) {
      if (!page.ok()) return call.Finish(page.status());
      call.Finish(scope.Sealed(ListResponse(*page)));
    });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* QueueService::ExplainTask(grpc::CallbackServerContext* context,
                                                    const v1::ExplainTaskRequest* request,
                                                    v1::ExplainTaskResponse* response) {
  const auto explain = [&](const server::UnaryCall<v1::ExplainTaskResponse>& call) {
    const absl::StatusOr<core::QueueId> id = QueueIdFrom(request->queue_id());
    if (!id.ok()) return call.Finish(id.status());
    driver_.ExplainTask(*id, [call, id = *id](const absl::StatusOr<director::Explanation>& found) {
      if (!found.ok()) return call.Finish(found.status());
      call.Finish(ToProto(id, *found));
    });
  };
  return server::Unary(context, response, explain);
}

}  // namespace callboard
