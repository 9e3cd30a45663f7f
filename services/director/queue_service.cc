#include "services/director/queue_service.h"

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/server/bidi_call.h"
#include "libs/server/call.h"
#include "libs/wire/enums.h"
#include "libs/wire/fields.h"
#include "libs/wire/page.h"
#include "libs/wire/spec.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"
#include "services/director/query_messages.h"
#include "services/director/submit_tasks.h"
#include "services/director/tail_task_logs.h"

namespace callboard {
namespace {

using SubmitCall = server::UnaryCall<v1::SubmitTaskResponse>;
using ReserveCall = server::UnaryCall<v1::ReserveSlotResponse>;

// Returns the task as it was when it was admitted.
core::Task AdmittedTask(const director::SubmitResult& submitted) {
  core::Task task;
  task.queue_id = submitted.queue_id;
  task.spec = submitted.admitted.spec->bytes;
  task.policy = submitted.admitted.policy;
  task.position = submitted.position;
  task.submitted_at = submitted.admitted.submitted_at;
  task.created_at = submitted.created_at;
  task.redrive_of = submitted.admitted.redrive_of;
  if (submitted.admitted.trace != core::SpanContext()) {
    task.trace_id = submitted.admitted.trace.trace_id;
  }
  return task;
}

v1::SubmitTaskResponse ResponseTo(const director::SubmitResult& submitted, const core::Task& task) {
  v1::SubmitTaskResponse response = SubmitResponse(submitted);
  *response.mutable_task() = wire::ToProto(task);
  wire::ReduceToBasicView(*response.mutable_task());
  response.mutable_task()->set_queue_id(response.queue_id());
  return response;
}

void FinishSubmit(director::DirectorDriver& driver, const director::SubmitResult& submitted,
                  const SubmitCall& call) {
  if (submitted.admitted.spec != nullptr) {
    return call.Finish(ResponseTo(submitted, AdmittedTask(submitted)));
  }
  // A repeated submit: answer with the task's current state, if it is still stored.
  driver.GetTask(submitted.queue_id, [call, submitted](const absl::StatusOr<core::Task>& task) {
    if (absl::IsNotFound(task.status())) return call.Finish(SubmitResponse(submitted));
    if (!task.ok()) return call.Finish(task.status());
    call.Finish(ResponseTo(submitted, *task));
  });
}

absl::StatusOr<absl::Duration> HoldFrom(const v1::ReserveSlotRequest& request) {
  if (!request.has_hold()) return absl::Seconds(core::kTicketSeconds);
  const std::optional<absl::Duration> hold = wire::FromProto(request.hold());
  wire::FieldChecks checks;
  if (!hold.has_value() || *hold <= absl::ZeroDuration()) {
    checks.AddViolation("hold", "is not a time above 0");
  } else {
    checks.CheckLimit(
        "hold", static_cast<uint64_t>(absl::ToInt64Seconds(absl::Ceil(*hold, absl::Seconds(1)))),
        core::kTicketSecondsMax, "seconds");
  }
  RETURN_IF_ERROR(checks.status());
  return *hold;
}

absl::StatusOr<v1::ReserveSlotResponse> ResponseTo(const director::Decision& decision) {
  if (const auto* error = std::get_if<absl::Status>(&decision)) return *error;
  const auto& granted = std::get<director::GrantedTicket>(decision);
  v1::ReserveSlotResponse response;
  response.set_ticket(granted.ticket);
  *response.mutable_expires_at() = wire::ToProto(granted.expires_at);
  return response;
}

// Parses each task's id. An id that is wrong gets its own error and does not affect the others.
absl::StatusOr<std::vector<absl::StatusOr<core::QueueId>>> TasksFrom(
    const v1::RedriveTasksRequest& request) {
  wire::FieldChecks all;
  all.CheckLimit("queue_ids", static_cast<uint64_t>(request.queue_ids_size()), core::kRedrivesMax,
                 "entries");
  RETURN_IF_ERROR(all.status());
  std::vector<absl::StatusOr<core::QueueId>> tasks;
  for (int i = 0; i < request.queue_ids_size(); ++i) {
    const std::string field = absl::StrCat("queue_ids[", i, "]");
    wire::FieldChecks checks;
    if (request.queue_ids(i).empty()) checks.AddViolation(field, "is empty");
    const auto id = wire::ReadQueueId(field, request.queue_ids(i), checks);
    tasks.push_back(id.has_value() ? absl::StatusOr<core::QueueId>(*id) : checks.status());
  }
  return tasks;
}

v1::RedriveTasksResponse ResponseTo(const std::vector<std::string>& tasks,
                                    const std::vector<director::RedriveResult>& redriven) {
  v1::RedriveTasksResponse response;
  for (size_t i = 0; i < tasks.size(); ++i) {
    auto& item = *response.add_items();
    item.set_queue_id(tasks[i]);
    if (redriven[i].ok()) {
      item.set_redriven_as(core::ToString(*redriven[i]));
    } else {
      *item.mutable_refused() = wire::ToProto(redriven[i].status());
    }
  }
  return response;
}

v1::CancelTaskResponse::Outcome OutcomeOf(director::CancelResult answer) {
  switch (answer) {
    case director::CancelResult::kCancelled:
      return v1::CancelTaskResponse::OUTCOME_CANCELLED;
    case director::CancelResult::kRequested:
      return v1::CancelTaskResponse::OUTCOME_REQUESTED;
    case director::CancelResult::kAlreadyEnded:
      return v1::CancelTaskResponse::OUTCOME_ALREADY_ENDED;
  }
  return v1::CancelTaskResponse::OUTCOME_UNSPECIFIED;
}

void Finish(const server::UnaryCall<v1::QueueStatus>& call,
            const absl::StatusOr<core::QueueStatus>& status) {
  if (!status.ok()) return call.Finish(status.status());
  call.Finish(wire::ToProto(*status));
}

}  // namespace

v1::SubmitTaskResponse SubmitResponse(const director::SubmitResult& submitted) {
  v1::SubmitTaskResponse response;
  // A submit with validate_only has no id.
  if (submitted.queue_id != core::QueueId()) {
    response.set_queue_id(core::ToString(submitted.queue_id));
  }
  response.set_position(submitted.position);
  response.set_state(wire::ToProto(wire::kTaskStates, submitted.state));
  response.set_deduplicated(submitted.deduplicated);
  return response;
}

grpc::ServerUnaryReactor* QueueService::SubmitTask(grpc::CallbackServerContext* context,
                                                   const v1::SubmitTaskRequest* request,
                                                   v1::SubmitTaskResponse* response) {
  const auto submit = [this, request](const SubmitCall& call) {
    const director::SubmitOrigin origin = OriginOf(*request, clock_.WallNow(), call.trace());
    const auto reject = [this, call, origin](const absl::Status& why) {
      ReportRejectedSubmit(why, origin, clock_.WallNow(), observer_);
      call.Finish(why);
    };
    // gRPC made the message for this call, and nothing reads it after this line.
    auto& content = const_cast<v1::SubmitTaskRequest&>(*request);
    absl::StatusOr<core::Submission> submission =
        wire::ReadSubmit(std::move(content), driver_.default_max_attempts());
    if (!submission.ok()) return reject(submission.status());
    submission->trace = call.trace();
    const director::CallId id = driver_.NewCallId();
    driver_.Post(director::SubmitCommand(
        id, server::kIdentity, *std::move(submission), origin.arrived,
        [this, call, reject](const director::Decision& decision) {
          if (const auto* why = std::get_if<absl::Status>(&decision)) return reject(*why);
          FinishSubmit(driver_, std::get<director::SubmitResult>(decision), call);
        }));
    // Registered after the post, so that the leave command cannot overtake the call.
    call.SetAbandonHook([this, id] { driver_.Post(director::CancelWaitCommand(id)); });
  };
  server::UnaryOptions options = kLongWaitOptions;
  options.tracer = &tracer_;
  options.method = kSubmitMethod;
  return server::Unary(context, response, submit, options);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* QueueService::SubmitTasks(
    grpc::CallbackServerContext* context) {
  return server::Bidi<grpc::ByteBuffer, grpc::ByteBuffer>(
      context,
      [this, parent = server::ExtractSpanContext(*context)](const SubmitTasksCall::Call& call) {
        std::make_shared<SubmitTasksCall>(call, driver_, observer_, clock_, tracer_, parent)
            ->Begin();
      },
      {.budget = &budget_});
}

grpc::ServerUnaryReactor* QueueService::ReserveSlot(grpc::CallbackServerContext* context,
                                                    const v1::ReserveSlotRequest* request,
                                                    v1::ReserveSlotResponse* response) {
  const auto reserve = [&](const ReserveCall& call) {
    const absl::StatusOr<absl::Duration> hold = HoldFrom(*request);
    if (!hold.ok()) return call.Finish(hold.status());
    const director::SubmitOrigin origin = {
        .identity = server::kIdentity,
        .arrived = clock_.WallNow(),
        .trace = server::ExtractSpanContext(*context).value_or(core::SpanContext())};
    const director::CallId id = driver_.NewCallId();
    driver_.Post(director::MakeCommand(
        {.call = id},
        [hold = *hold](director::DirectorEngine& engine, director::Moment now) {
          return engine.ReserveSlot(server::kIdentity, hold, now);
        },
        [this, call, origin](const director::Decision& decision) {
          if (const auto* why = std::get_if<absl::Status>(&decision);
              why && absl::IsCancelled(*why))
            ReportRejectedSubmit(*why, origin, clock_.WallNow(), observer_);
          call.Finish(ResponseTo(decision));
        }));
    // Registered after the post, so that the leave command cannot overtake the call.
    call.SetAbandonHook([this, id] { driver_.Post(director::CancelWaitCommand(id)); });
  };
  return server::Unary(context, response, reserve, kLongWaitOptions);
}

grpc::ServerUnaryReactor* QueueService::RedriveTasks(grpc::CallbackServerContext* context,
                                                     const v1::RedriveTasksRequest* request,
                                                     v1::RedriveTasksResponse* response) {
  const auto redrive = [&](const server::UnaryCall<v1::RedriveTasksResponse>& call) {
    auto tasks = TasksFrom(*request);
    if (!tasks.ok()) return call.Finish(tasks.status());
    std::vector<std::string> names;
    for (const std::string& name : request->queue_ids())
      names.push_back(base::EscapeForError(name));
    driver_.RedriveTasks(*std::move(tasks), server::kIdentity, wire::MakeRedrive,
                         [call, names](const std::vector<director::RedriveResult>& redriven) {
                           call.Finish(ResponseTo(names, redriven));
                         });
  };
  return server::Unary(context, response, redrive, kLongWaitOptions);
}

grpc::ServerUnaryReactor* QueueService::CancelTask(grpc::CallbackServerContext* context,
                                                   const v1::CancelTaskRequest* request,
                                                   v1::CancelTaskResponse* response) {
  const auto cancel = [&](const server::UnaryCall<v1::CancelTaskResponse>& call) {
    const absl::StatusOr<core::QueueId> id = QueueIdFrom(request->queue_id());
    if (!id.ok()) return call.Finish(id.status());
    wire::FieldChecks checks;
    const std::string why = wire::ReadText("why", request->why(), core::kErrorBytesMax, checks);
    if (!checks.status().ok()) return call.Finish(checks.status());
    driver_.Post(director::MakeCommand(
        {},
        [id = *id, why](director::DirectorEngine& engine, director::Moment now) {
          return engine.Cancel(id, server::kIdentity, why, now);
        },
        [this, id = *id, call](absl::StatusOr<director::CancelResult> answer) {
          if (!answer.ok()) return call.Finish(answer.status());
          driver_.GetTask(id, [call, answer = *answer](const absl::StatusOr<core::Task>& task) {
            v1::CancelTaskResponse done;
            done.set_outcome(OutcomeOf(answer));
            // The cancel has succeeded even if the task can no longer be read.
            if (task.ok()) {
              *done.mutable_task() = wire::ToProto(*task);
              wire::ReduceToBasicView(*done.mutable_task());
            }
            call.Finish(std::move(done));
          });
        }));
  };
  return server::Unary(context, response, cancel);
}

// ---- Methods that read tasks ----

grpc::ServerUnaryReactor* QueueService::GetTask(grpc::CallbackServerContext* context,
                                                const v1::GetTaskRequest* request,
                                                v1::Task* response) {
  return server::Unary(context, response, [&](const server::UnaryCall<v1::Task>& call) {
    const absl::StatusOr<TaskQuery> query = TaskQueryFrom(*request);
    if (!query.ok()) return call.Finish(query.status());
    const auto reply = [call, query = *query](const absl::StatusOr<core::Task>& task) {
      if (!task.ok()) return call.Finish(task.status());
      call.Finish(TaskResponse(*task, query));
    };
    if (query->queue_id.has_value()) return driver_.GetTask(*query->queue_id, reply);
    driver_.GetTaskByRequestId(server::kIdentity, query->request_id, reply);
  });
}

grpc::ServerUnaryReactor* QueueService::ListTasks(grpc::CallbackServerContext* context,
                                                  const v1::ListTasksRequest* request,
                                                  v1::ListTasksResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListTasksResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::ListQuery> query = ListQueryFrom(scope.Unseal(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListTasks(*query, [call, scope](const absl::StatusOr<director::TaskPage>& page) {
      if (!page.ok()) return call.Finish(page.status());
      call.Finish(scope.Seal(ListResponse(*page)));
    });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* QueueService::ListSessions(grpc::CallbackServerContext* context,
                                                     const v1::ListSessionsRequest* request,
                                                     v1::ListSessionsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListSessionsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::TaskSessionQuery> query =
        TaskSessionQueryFrom(scope.Unseal(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.Post(director::MakeCommand(
        {.access = director::Command::Access::kRead},
        [query = *query](director::DirectorEngine& engine, director::Moment) {
          return engine.views().ListTaskSessions(query);
        },
        [call, scope](const absl::StatusOr<director::TaskSessionPage>& page) {
          if (!page.ok()) return call.Finish(page.status());
          call.Finish(scope.Seal(ListResponse(*page)));
        }));
  };
  return server::Unary(context, response, list);
}

grpc::ServerWriteReactor<v1::WatchTasksResponse>* QueueService::WatchTasks(
    grpc::CallbackServerContext* context, const v1::WatchTasksRequest* request) {
  const auto watch = [&](const server::StreamCall<v1::WatchTasksResponse>& call) {
    absl::StatusOr<director::WatchQuery> query = WatchQueryFrom(*request);
    if (!query.ok()) return call.Finish(query.status());
    const auto show = [call](const director::WatchUpdate& update) {
      // Write() fails only when the stream has ended; the abandon hook reports that.
      std::ignore = call.Write(ToProto(update));
    };
    const auto end = [call](absl::Status status) { call.Finish(std::move(status)); };
    const auto task_watch =
        driver_.WatchTasks(*std::move(query), {show, end, [call] { call.CutOff(); }});
    call.SetSentHook([task_watch] { task_watch->Continue(); });
    call.SetAbandonHook([task_watch] { task_watch->Stop(); });
    task_watch->Begin();
  };
  return server::Stream<v1::WatchTasksResponse>(context, watch, {.budget = &budget_});
}

grpc::ServerWriteReactor<v1::TailTaskLogsResponse>* QueueService::TailTaskLogs(
    grpc::CallbackServerContext* context, const v1::TailTaskLogsRequest* request) {
  const auto tail = [&](const server::StreamCall<v1::TailTaskLogsResponse>& call) {
    const absl::StatusOr<store::OutputKeeper::ReadRequest> output_request =
        OutputRequestFrom(*request);
    if (!output_request.ok()) return call.Finish(output_request.status());
    std::make_shared<TailTaskLogsCall>(call, TailTaskLogsCall::Deps{driver_, outputs_, clock_},
                                       *output_request)
        ->Begin();
  };
  return server::Stream<v1::TailTaskLogsResponse>(context, tail, {.budget = &budget_});
}

grpc::ServerUnaryReactor* QueueService::ListTaskEvents(grpc::CallbackServerContext* context,
                                                       const v1::ListTaskEventsRequest* request,
                                                       v1::ListTaskEventsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListTaskEventsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::EventQuery> query = EventQueryFrom(scope.Unseal(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListTaskEvents(*query, [call, scope](const absl::StatusOr<director::EventPage>& page) {
      if (!page.ok()) return call.Finish(page.status());
      call.Finish(scope.Seal(ListResponse(*page)));
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
    driver_.Post(director::MakeCommand(
        {.access = director::Command::Access::kRead},
        [id = *id](director::DirectorEngine& engine, director::Moment now) {
          return engine.views().Explain(id, now);
        },
        [call, id = *id](const absl::StatusOr<director::Explanation>& found) {
          if (!found.ok()) return call.Finish(found.status());
          call.Finish(ToProto(id, *found));
        }));
  };
  return server::Unary(context, response, explain);
}

// ---- Methods that control the queue as a whole ----

grpc::ServerUnaryReactor* QueueService::GetQueueStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetQueueStatusRequest*,
                                                       v1::QueueStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::QueueStatus>& call) {
    driver_.Post(director::MakeCommand(
        {.access = director::Command::Access::kRead},
        [](director::DirectorEngine& engine, director::Moment now) {
          return engine.views().Status(now);
        },
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); }));
  });
}

grpc::ServerUnaryReactor* QueueService::SwitchQueue(grpc::CallbackServerContext* context,
                                                    v1::QueueStatus* response,
                                                    const std::string& why, SwitchCommand command) {
  const auto switch_queue = [&](const server::UnaryCall<v1::QueueStatus>& call) {
    wire::FieldChecks checks;
    const std::string reason = wire::ReadText("why", why, core::kErrorBytesMax, checks);
    if (!checks.status().ok()) return call.Finish(checks.status());
    driver_.Post(director::MakeCommand(
        {},
        [command, reason](director::DirectorEngine& engine, director::Moment now) {
          (engine.*command)(server::kIdentity, reason, now);
          return engine.views().Status(now);
        },
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); }));
  };
  return server::Unary(context, response, switch_queue);
}

grpc::ServerUnaryReactor* QueueService::PauseQueue(grpc::CallbackServerContext* context,
                                                   const v1::PauseQueueRequest* request,
                                                   v1::QueueStatus* response) {
  return SwitchQueue(context, response, request->why(), &director::DirectorEngine::Pause);
}

grpc::ServerUnaryReactor* QueueService::ResumeQueue(grpc::CallbackServerContext* context,
                                                    const v1::ResumeQueueRequest*,
                                                    v1::QueueStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::QueueStatus>& call) {
    driver_.Post(director::MakeCommand(
        {},
        [](director::DirectorEngine& engine, director::Moment now) {
          engine.Resume(now);
          return engine.views().Status(now);
        },
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); }));
  });
}

grpc::ServerUnaryReactor* QueueService::DrainQueue(grpc::CallbackServerContext* context,
                                                   const v1::DrainQueueRequest* request,
                                                   v1::QueueStatus* response) {
  return SwitchQueue(context, response, request->why(), &director::DirectorEngine::Drain);
}

grpc::ServerUnaryReactor* QueueService::KickDispatcher(grpc::CallbackServerContext* context,
                                                       const v1::KickDispatcherRequest*,
                                                       v1::KickDispatcherResponse* response) {
  const auto kick = [this](const server::UnaryCall<v1::KickDispatcherResponse>& call) {
    driver_.Post(director::MakeCommand(
        {}, [](director::DirectorEngine& engine, director::Moment now) { return engine.Kick(now); },
        [call](const absl::StatusOr<director::KickResult>& kicked) {
          if (!kicked.ok()) return call.Finish(kicked.status());
          v1::KickDispatcherResponse done;
          done.set_backoffs_ended(kicked->backoffs);
          done.set_suspicions_ended(kicked->suspicions);
          call.Finish(std::move(done));
        }));
  };
  return server::Unary(context, response, kick);
}

grpc::ServerUnaryReactor* QueueService::CreateCheckpoint(grpc::CallbackServerContext* context,
                                                         const v1::CreateCheckpointRequest* request,
                                                         v1::CreateCheckpointResponse* response) {
  const auto create = [&](const server::UnaryCall<v1::CreateCheckpointResponse>& call) {
    const std::string name =
        request->name().empty()
            ? absl::FormatTime("%Y%m%dT%H%M%E3SZ", clock_.WallNow(), absl::UTCTimeZone())
            : request->name();
    driver_.CreateCheckpoint(name, [call](const absl::StatusOr<ports::Checkpoint>& checkpoint) {
      if (!checkpoint.ok()) return call.Finish(checkpoint.status());
      v1::CreateCheckpointResponse created;
      created.set_path(checkpoint->path);
      created.set_sequence(checkpoint->sequence);
      created.set_size_bytes(checkpoint->size_bytes);
      call.Finish(std::move(created));
    });
  };
  return server::Unary(context, response, create, kLongWaitOptions);
}

}  // namespace callboard
