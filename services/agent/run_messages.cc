#include "services/agent/run_messages.h"

#include <memory>
#include <utility>

#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/wire/fields.h"
#include "libs/wire/session.h"
#include "libs/wire/spec.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"

namespace callboard {
namespace {

absl::StatusOr<std::string> TaskIdFrom(const std::string& text) {
  wire::FieldChecks checks;
  if (text.empty()) checks.AddViolation("task_id", "is required");
  std::string task_id = wire::ReadText("task_id", text, core::kNameBytesMax, checks);
  RETURN_IF_ERROR(checks.status());
  return task_id;
}

std::string AgentTaskId(const core::FenceToken& token) {
  return core::TaskIdText(token.queue_id, token.dispatch);
}

}  // namespace

absl::StatusOr<agent::DirectStart> StartFrom(const v1::StartTaskRequest& request) {
  wire::FieldChecks checks;
  if (request.request_id().empty()) checks.AddViolation("request_id", "is required");
  std::string request_id =
      wire::ReadText("request_id", request.request_id(), core::kRequestIdBytesMax, checks);
  checks.EnterMessage("task");
  // The fields of a submit have the same numbers in a task. Other fields of the task are ignored.
  v1::Task task = request.task();
  task.DiscardUnknownFields();
  task.clear_policy();
  v1::SubmitTaskRequest submit;
  RETURN_IF_ERROR(wire::Parse(task.SerializeAsString(), submit));
  // Any request id makes ReadSubmit() compute the fingerprint, of which it is no part.
  submit.set_request_id("direct");
  core::Submission submission =
      wire::ReadSubmit(std::move(submit), core::QueueOptions().max_attempts, checks);
  RETURN_IF_ERROR(checks.status());
  v1::TaskSpec spec;
  CHECK(spec.ParseFromString(*submission.spec.bytes));
  return agent::DirectStart{.run = std::make_shared<const core::RunSpec>(wire::ReadRunSpec(spec)),
                            .request_id = std::move(request_id),
                            .fingerprint = submission.fingerprint,
                            .required_labels = std::move(submission.spec.terms.required_labels)};
}

absl::StatusOr<std::string> TaskIdFrom(const v1::AgentServiceGetTaskRequest& request) {
  return TaskIdFrom(request.task_id());
}

absl::StatusOr<agent::OutputQuery> OutputQueryFrom(const v1::TailLogsRequest& request) {
  ASSIGN_OR_RETURN(std::string task_id, TaskIdFrom(request.task_id()));
  return agent::OutputQuery{.task_id = std::move(task_id),
                            .after_number = request.after_number(),
                            .follow = request.follow()};
}

v1::StartTaskResponse ToProto(const agent::DirectStartResult& start) {
  v1::StartTaskResponse response;
  response.set_task_id(AgentTaskId(start.token));
  response.set_deduplicated(start.deduplicated);
  return response;
}

v1::AgentRun ToProto(const agent::RunView& run) {
  v1::AgentRun proto;
  proto.set_task_id(AgentTaskId(run.token));
  proto.set_state(v1::AgentRun::STATE_WORKING);
  proto.set_pid(run.pid);
  if (run.result.has_value()) wire::WriteResult(*run.result, proto);
  *proto.mutable_started_at() = wire::ToProto(run.started_at);
  if (run.finished_at.has_value()) *proto.mutable_finished_at() = wire::ToProto(*run.finished_at);
  return proto;
}

v1::TailLogsResponse ToProto(const core::RunOutput& output) {
  v1::TailLogsResponse response;
  for (const core::OutputChunk& chunk : output.chunks) {
    *response.add_chunks() = wire::ToProto(chunk, output.token.dispatch);
  }
  return response;
}

}  // namespace callboard
