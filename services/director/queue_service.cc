#include "services/director/queue_service.h"

#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/core/limits.h"
#include "libs/server/call.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/queue_status.h"
#include "libs/wire/task.h"
#include "libs/wire/task_view.h"
#include "services/director/task_list.h"

namespace callboard {
namespace {

using SubmitCall = server::UnaryCall<v1::SubmitTaskResponse>;

// Everybody, as long as nobody is asked who he is.
constexpr char kIdentity[] = "anonymous";
// For calls that wait for a place, or for the disk.
constexpr server::UnaryOptions kPatient = {.deadline_max = absl::Minutes(10)};

absl::StatusOr<core::QueueId> QueueIdFrom(const std::string& text) {
  wire::FieldChecks checks;
  const core::QueueId id = wire::ReadRequiredQueueId(text, checks);
  if (!checks.status().ok()) return checks.status();
  return id;
}

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

void Answer(director::DirectorDriver& driver, const director::Decision& decision,
            const SubmitCall& call) {
  if (const auto* refused = std::get_if<absl::Status>(&decision)) return call.Finish(*refused);
  const auto& submitted = std::get<director::Submitted>(decision);
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

void Finish(const server::UnaryCall<v1::QueueStatus>& call,
            const absl::StatusOr<core::QueueStatus>& status) {
  if (!status.ok()) return call.Finish(status.status());
  call.Finish(wire::ToProto(*status));
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
    absl::StatusOr<core::Submission> submission = wire::FromProto(*request);
    if (!submission.ok()) return call.Finish(submission.status());
    const director::CallId id = driver_.NextCall();
    driver_.Post(director::SubmitCommand(
        id, kIdentity, *std::move(submission), clock_.WallNow(),
        [this, call](const director::Decision& decision) { Answer(driver_, decision, call); }));
    // After it, so that it is not overtaken.
    call.OnAbandoned([this, id] { driver_.Post(director::LeaveCommand(id)); });
  };
  return server::Unary(context, response, submit, kPatient);
}

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
    const absl::StatusOr<director::ListQuery> query = ListQueryFrom(*request);
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListTasks(*query, [call](const absl::StatusOr<director::TaskPage>& page) {
      if (!page.ok()) return call.Finish(page.status());
      call.Finish(ListResponse(*page));
    });
  };
  return server::Unary(context, response, list);
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
    driver_.CancelTask(
        *id, kIdentity, why, [this, id = *id, call](absl::StatusOr<director::CancelAnswer> answer) {
          if (!answer.ok()) return call.Finish(answer.status());
          driver_.GetTask(id, [call, answer = *answer](const absl::StatusOr<core::Task>& task) {
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

grpc::ServerUnaryReactor* QueueService::GetQueueStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetQueueStatusRequest*,
                                                       v1::QueueStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::QueueStatus>& call) {
    driver_.GetQueueStatus(
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); });
  });
}

grpc::ServerUnaryReactor* QueueService::Switch(
    grpc::CallbackServerContext* context, v1::QueueStatus* response,
    void (director::DirectorEngine::*command)(director::Moment)) {
  const auto tell = [this, command](const server::UnaryCall<v1::QueueStatus>& call) {
    driver_.Post(director::CallCommand<core::QueueStatus>(
        director::Command::Need::kWrite,
        [command](director::DirectorEngine& engine, director::Moment now) {
          (engine.*command)(now);
          return engine.Status(now);
        },
        [call](const absl::StatusOr<core::QueueStatus>& status) { Finish(call, status); }));
  };
  return server::Unary(context, response, tell);
}

grpc::ServerUnaryReactor* QueueService::PauseQueue(grpc::CallbackServerContext* context,
                                                   const v1::PauseQueueRequest*,
                                                   v1::QueueStatus* response) {
  return Switch(context, response, &director::DirectorEngine::Pause);
}

grpc::ServerUnaryReactor* QueueService::ResumeQueue(grpc::CallbackServerContext* context,
                                                    const v1::ResumeQueueRequest*,
                                                    v1::QueueStatus* response) {
  return Switch(context, response, &director::DirectorEngine::Resume);
}

grpc::ServerUnaryReactor* QueueService::DrainQueue(grpc::CallbackServerContext* context,
                                                   const v1::DrainQueueRequest*,
                                                   v1::QueueStatus* response) {
  return Switch(context, response, &director::DirectorEngine::Drain);
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
  return server::Unary(context, response, create, kPatient);
}

}  // namespace callboard
