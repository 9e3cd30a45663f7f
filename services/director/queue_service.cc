#include "services/director/queue_service.h"

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/server/bidi_call.h"
#include "libs/server/call.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "libs/wire/task_view.h"
#include "libs/wire/time.h"
#include "services/director/queue_calls.h"
#include "services/director/submit_tasks.h"

namespace callboard {
namespace {

using SubmitCall = server::UnaryCall<v1::SubmitTaskResponse>;
using ReserveCall = server::UnaryCall<v1::ReserveSlotResponse>;

// A task in the moment of its admission.
core::Task AdmittedTask(const director::Submitted& submitted) {
  core::Task task;
  task.queue_id = submitted.queue_id;
  task.spec = *submitted.admitted.spec;
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

v1::SubmitTaskResponse ResponseTo(const director::Submitted& submitted,
                                  const std::optional<core::Task>& task) {
  v1::SubmitTaskResponse response;
  const bool is_real = submitted.queue_id != core::QueueId();
  if (is_real) response.set_queue_id(core::ToString(submitted.queue_id));
  response.set_position(submitted.position);
  response.set_state(wire::ToProto(wire::kTaskStates, submitted.state));
  response.set_deduplicated(submitted.deduplicated);
  if (task.has_value()) {
    *response.mutable_task() = wire::ToProto(*task);
    wire::MakeBasic(*response.mutable_task());
    if (!is_real) response.mutable_task()->clear_queue_id();
  }
  return response;
}

void Answer(director::DirectorDriver& driver, const director::Submitted& submitted,
            const SubmitCall& call) {
  if (submitted.admitted.spec != nullptr) {
    return call.Finish(ResponseTo(submitted, AdmittedTask(submitted)));
  }
  // It was accepted before: as it is now, if it is still known.
  driver.GetTask(submitted.queue_id, [call, submitted](const absl::StatusOr<core::Task>& task) {
    if (absl::IsNotFound(task.status())) return call.Finish(ResponseTo(submitted, std::nullopt));
    if (!task.ok()) return call.Finish(task.status());
    call.Finish(ResponseTo(submitted, *task));
  });
}

absl::StatusOr<absl::Duration> HoldFrom(const v1::ReserveSlotRequest& request) {
  if (!request.has_hold()) return absl::Seconds(core::kTicketSeconds);
  const std::optional<absl::Duration> hold = wire::FromProto(request.hold());
  wire::FieldChecks checks;
  if (!hold.has_value() || *hold <= absl::ZeroDuration()) {
    checks.Refuse("hold", "is not a time above 0");
  } else {
    checks.AtMost("hold",
                  static_cast<uint64_t>(absl::ToInt64Seconds(absl::Ceil(*hold, absl::Seconds(1)))),
                  core::kTicketSecondsMax, "seconds");
  }
  RETURN_IF_ERROR(checks.status());
  return *hold;
}

absl::StatusOr<v1::ReserveSlotResponse> ResponseTo(const director::Decision& decision) {
  if (const auto* refused = std::get_if<absl::Status>(&decision)) return *refused;
  const auto& granted = std::get<director::TicketGranted>(decision);
  v1::ReserveSlotResponse response;
  response.set_ticket(granted.ticket);
  *response.mutable_expires_at() = wire::ToProto(granted.expires_at);
  return response;
}

// Each task that is named; one whose name is wrong is answered alone.
absl::StatusOr<std::vector<absl::StatusOr<core::QueueId>>> TasksFrom(
    const v1::RedriveTasksRequest& request) {
  wire::FieldChecks all;
  all.AtMost("queue_ids", static_cast<uint64_t>(request.queue_ids_size()), core::kRedrivesMax,
             "entries");
  RETURN_IF_ERROR(all.status());
  std::vector<absl::StatusOr<core::QueueId>> tasks;
  for (int i = 0; i < request.queue_ids_size(); ++i) {
    const std::string field = absl::StrCat("queue_ids[", i, "]");
    wire::FieldChecks checks;
    if (request.queue_ids(i).empty()) checks.Refuse(field, "is empty");
    const auto id = wire::ReadQueueId(field, request.queue_ids(i), checks);
    tasks.push_back(id.has_value() ? absl::StatusOr<core::QueueId>(*id) : checks.status());
  }
  return tasks;
}

v1::RedriveTasksResponse ResponseTo(const std::vector<std::string>& tasks,
                                    const std::vector<director::Redriven>& redriven) {
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

v1::CancelTaskResponse::Outcome OutcomeOf(director::CancelAnswer answer) {
  switch (answer) {
    case director::CancelAnswer::kCancelled:
      return v1::CancelTaskResponse::OUTCOME_CANCELLED;
    case director::CancelAnswer::kRequested:
      return v1::CancelTaskResponse::OUTCOME_REQUESTED;
    case director::CancelAnswer::kAlreadyEnded:
      return v1::CancelTaskResponse::OUTCOME_ALREADY_ENDED;
  }
  return v1::CancelTaskResponse::OUTCOME_UNSPECIFIED;
}

}  // namespace

grpc::ServerUnaryReactor* QueueService::SubmitTask(grpc::CallbackServerContext* context,
                                                   const v1::SubmitTaskRequest* request,
                                                   v1::SubmitTaskResponse* response) {
  const auto submit = [this, request](const SubmitCall& call) {
    const director::SubmitOrigin origin = OriginOf(*request, clock_.WallNow(), call.trace());
    const auto refuse = [this, call, origin](const absl::Status& why) {
      TellOfRefusal(why, origin, clock_.WallNow(), observer_);
      call.Finish(why);
    };
    absl::StatusOr<core::Submission> submission = wire::FromProto(*request);
    if (!submission.ok()) return refuse(submission.status());
    submission->trace = call.trace();
    const director::CallId id = driver_.NextCall();
    driver_.Post(
        director::SubmitCommand(id, server::kIdentity, *std::move(submission), origin.arrived,
                                [this, call, refuse](const director::Decision& decision) {
                                  if (const auto* why = std::get_if<absl::Status>(&decision))
                                    return refuse(*why);
                                  Answer(driver_, std::get<director::Submitted>(decision), call);
                                }));
    // After it, so that it is not overtaken.
    call.OnAbandoned([this, id] { driver_.Post(director::LeaveCommand(id)); });
  };
  server::UnaryOptions options = kPatient;
  options.tracer = &tracer_;
  options.method = kSubmitMethod;
  return server::Unary(context, response, submit, options);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* QueueService::SubmitTasks(
    grpc::CallbackServerContext* context) {
  return server::Bidi<grpc::ByteBuffer, grpc::ByteBuffer>(
      context,
      [this, parent = server::TraceOf(*context)](const SubmitTasksCall::Call& call) {
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
        .trace = server::TraceOf(*context).value_or(core::SpanContext())};
    const director::CallId id = driver_.NextCall();
    driver_.Post(director::ReserveCommand(
        id, server::kIdentity, *hold, [this, call, origin](const director::Decision& decision) {
          if (const auto* why = std::get_if<absl::Status>(&decision);
              why && absl::IsCancelled(*why))
            TellOfRefusal(*why, origin, clock_.WallNow(), observer_);
          call.Finish(ResponseTo(decision));
        }));
    // After it, so that it is not overtaken.
    call.OnAbandoned([this, id] { driver_.Post(director::LeaveCommand(id)); });
  };
  return server::Unary(context, response, reserve, kPatient);
}

grpc::ServerUnaryReactor* QueueService::RedriveTasks(grpc::CallbackServerContext* context,
                                                     const v1::RedriveTasksRequest* request,
                                                     v1::RedriveTasksResponse* response) {
  const auto redrive = [&](const server::UnaryCall<v1::RedriveTasksResponse>& call) {
    auto tasks = TasksFrom(*request);
    if (!tasks.ok()) return call.Finish(tasks.status());
    std::vector<std::string> names;
    for (const std::string& name : request->queue_ids()) names.push_back(base::Echoed(name));
    driver_.RedriveTasks(*std::move(tasks), server::kIdentity,
                         [call, names](const std::vector<director::Redriven>& redriven) {
                           call.Finish(ResponseTo(names, redriven));
                         });
  };
  return server::Unary(context, response, redrive, kPatient);
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
    driver_.CancelTask(*id, server::kIdentity, why,
                       [this, id = *id, call](absl::StatusOr<director::CancelAnswer> answer) {
                         if (!answer.ok()) return call.Finish(answer.status());
                         driver_.GetTask(
                             id, [call, answer = *answer](const absl::StatusOr<core::Task>& task) {
                               v1::CancelTaskResponse done;
                               done.set_outcome(OutcomeOf(answer));
                               // It is done, whether or not the task can still be shown.
                               if (task.ok()) {
                                 *done.mutable_task() = wire::ToProto(*task);
                                 wire::MakeBasic(*done.mutable_task());
                               }
                               call.Finish(std::move(done));
                             });
                       });
  };
  return server::Unary(context, response, cancel);
}

}  // namespace callboard
