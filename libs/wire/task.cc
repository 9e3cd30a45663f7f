#include "libs/wire/task.h"

#include <optional>
#include <string>

#include "libs/base/status_macros.h"
#include "libs/core/limits.h"
#include "libs/wire/field_values.h"
#include "libs/wire/task_spec.h"

namespace callboard::wire {
namespace {

std::optional<core::TraceId> ReadTraceId(const std::string& text, FieldChecks& checks) {
  const std::optional<core::TraceId> id = core::ParseTraceId(text);
  if (!text.empty() && !id.has_value()) {
    checks.Refuse("trace_id", "is not 32 lower-case hex digits with one above 0");
  }
  return id;
}

std::string TaskIdOf(core::QueueId id, core::DispatchNumber dispatch) {
  return dispatch.value() == 0 ? "" : core::TaskIdText(id, dispatch);
}

void ReadTimes(const v1::Task& proto, core::Task& task, FieldChecks& checks) {
  const auto read = [&](absl::string_view field, bool present, const auto& time) {
    return ReadTime(field, present, time, checks);
  };
  task.submitted_at = read("submitted_at", proto.has_submitted_at(), proto.submitted_at());
  task.created_at = read("created_at", proto.has_created_at(), proto.created_at());
  task.dispatched_at = read("dispatched_at", proto.has_dispatched_at(), proto.dispatched_at());
  task.finished_at = read("finished_at", proto.has_finished_at(), proto.finished_at());
  task.not_before = read("not_before", proto.has_not_before(), proto.not_before());
  task.cancel_requested_at =
      read("cancel_requested_at", proto.has_cancel_requested_at(), proto.cancel_requested_at());
}

void WriteTimes(const core::Task& task, v1::Task& proto) {
  if (task.submitted_at) *proto.mutable_submitted_at() = ToProto(*task.submitted_at);
  if (task.created_at) *proto.mutable_created_at() = ToProto(*task.created_at);
  if (task.dispatched_at) *proto.mutable_dispatched_at() = ToProto(*task.dispatched_at);
  if (task.finished_at) *proto.mutable_finished_at() = ToProto(*task.finished_at);
  if (task.not_before) *proto.mutable_not_before() = ToProto(*task.not_before);
  if (task.cancel_requested_at) {
    *proto.mutable_cancel_requested_at() = ToProto(*task.cancel_requested_at);
  }
}

}  // namespace

absl::StatusOr<core::Submission> FromProto(const v1::SubmitTaskRequest& proto) {
  FieldChecks checks;
  core::Submission submission;
  submission.spec = ReadSpec(proto, checks);
  submission.policy = ReadEnum("policy", kQueuePolicies, proto.policy(), checks);
  submission.ticket = ReadText("ticket", proto.ticket(), core::kNameBytesMax, checks);
  submission.validate_only = proto.validate_only();
  RETURN_IF_ERROR(checks.status());
  return submission;
}

v1::SubmitTaskRequest ToProto(const core::Submission& submission) {
  v1::SubmitTaskRequest proto;
  WriteSpec(submission.spec, proto);
  if (submission.policy.has_value()) proto.set_policy(ToProto(kQueuePolicies, *submission.policy));
  proto.set_ticket(submission.ticket);
  proto.set_validate_only(submission.validate_only);
  return proto;
}

absl::StatusOr<core::Task> FromProto(const v1::Task& proto) {
  FieldChecks checks;
  core::Task task;
  task.spec = ReadSpec(proto, checks);
  task.policy = ReadEnum("policy", kQueuePolicies, proto.policy(), checks);
  task.queue_id = ReadRequiredQueueId(proto.queue_id(), checks);
  const auto state = ReadEnum("state", kTaskStates, proto.state(), checks);
  if (proto.state() == v1::Task::STATE_UNSPECIFIED) checks.Refuse("state", "is required");
  task.state = state.value_or(core::TaskState::kPending);
  task.reason = ReadEnum("reason", kFailureReasons, proto.reason(), checks);
  task.position = proto.position();
  ReadTimes(proto, task, checks);
  task.dispatch = core::DispatchNumber(proto.dispatch());
  if (proto.task_id() != TaskIdOf(task.queue_id, task.dispatch)) {
    checks.Refuse("task_id", "is not that of queue_id and dispatch");
  }
  task.agent_url = ReadText("agent_url", proto.agent_url(), core::kNameBytesMax, checks);
  task.attempts = proto.attempts();
  task.busy_rejections = proto.busy_rejections();
  task.last_error = ReadText("last_error", proto.last_error(), core::kErrorBytesMax, checks);
  if (proto.has_exit_code()) task.exit_code = proto.exit_code();
  task.signal = ReadText("signal", proto.signal(), core::kNameBytesMax, checks);
  task.result = ReadText("result", proto.result(), core::kResultBytesMax, checks);
  task.result_truncated = proto.result_truncated();
  task.trace_id = ReadTraceId(proto.trace_id(), checks);
  task.redrive_of = ReadQueueId("redrive_of", proto.redrive_of(), checks);
  task.redriven_as = ReadQueueId("redriven_as", proto.redriven_as(), checks);
  if (proto.prompt_truncated()) checks.Refuse("prompt_truncated", "says that the prompt is cut");
  RETURN_IF_ERROR(checks.status());
  return task;
}

v1::Task ToProto(const core::Task& task) {
  v1::Task proto;
  WriteSpec(task.spec, proto);
  if (task.policy.has_value()) proto.set_policy(ToProto(kQueuePolicies, *task.policy));
  proto.set_queue_id(core::ToString(task.queue_id));
  proto.set_state(ToProto(kTaskStates, task.state));
  if (task.reason.has_value()) proto.set_reason(ToProto(kFailureReasons, *task.reason));
  proto.set_position(task.position);
  WriteTimes(task, proto);
  proto.set_task_id(TaskIdOf(task.queue_id, task.dispatch));
  proto.set_agent_url(task.agent_url);
  proto.set_dispatch(task.dispatch.value());
  proto.set_attempts(task.attempts);
  proto.set_busy_rejections(task.busy_rejections);
  proto.set_last_error(task.last_error);
  if (task.exit_code.has_value()) proto.set_exit_code(*task.exit_code);
  proto.set_signal(task.signal);
  proto.set_result(task.result);
  proto.set_result_truncated(task.result_truncated);
  if (task.trace_id.has_value()) proto.set_trace_id(core::ToString(*task.trace_id));
  if (task.redrive_of.has_value()) proto.set_redrive_of(core::ToString(*task.redrive_of));
  if (task.redriven_as.has_value()) proto.set_redriven_as(core::ToString(*task.redriven_as));
  return proto;
}

absl::StatusOr<core::TaskEvent> FromProto(const v1::TaskEvent& proto) {
  FieldChecks checks;
  core::TaskEvent event;
  event.number = proto.number();
  const auto kind = ReadEnum("kind", kTaskEventKinds, proto.kind(), checks);
  if (proto.kind() == v1::TaskEvent::KIND_UNSPECIFIED) checks.Refuse("kind", "is required");
  event.kind = kind.value_or(core::TaskEventKind::kSubmitted);
  if (!proto.has_at()) checks.Refuse("at", "is required");
  event.at = ReadTime("at", proto.has_at(), proto.at(), checks).value_or(absl::Time());
  event.who = ReadText("who", proto.who(), core::kNameBytesMax, checks);
  event.why = ReadText("why", proto.why(), core::kErrorBytesMax, checks);
  event.fault = ReadEnum("fault", kFaults, proto.fault(), checks);
  event.place_before = proto.place_before();
  event.place_after = proto.place_after();
  event.dispatch = core::DispatchNumber(proto.dispatch());
  event.agent = ReadText("agent", proto.agent(), core::kNameBytesMax, checks);
  RETURN_IF_ERROR(checks.status());
  return event;
}

v1::TaskEvent ToProto(const core::TaskEvent& event) {
  v1::TaskEvent proto;
  proto.set_number(event.number);
  proto.set_kind(ToProto(kTaskEventKinds, event.kind));
  *proto.mutable_at() = ToProto(event.at);
  proto.set_who(event.who);
  proto.set_why(event.why);
  if (event.fault.has_value()) proto.set_fault(ToProto(kFaults, *event.fault));
  proto.set_place_before(event.place_before);
  proto.set_place_after(event.place_after);
  proto.set_dispatch(event.dispatch.value());
  proto.set_agent(event.agent);
  return proto;
}

absl::StatusOr<core::FenceToken> FromProto(const v1::FenceToken& proto) {
  FieldChecks checks;
  const core::FenceToken token = {.queue_id = ReadRequiredQueueId(proto.queue_id(), checks),
                                  .dispatch = core::DispatchNumber(proto.dispatch()),
                                  .director_epoch = proto.director_epoch()};
  if (proto.dispatch() == 0) checks.Refuse("dispatch", "is required");
  if (proto.director_epoch() == 0) checks.Refuse("director_epoch", "is required");
  RETURN_IF_ERROR(checks.status());
  return token;
}

v1::FenceToken ToProto(const core::FenceToken& token) {
  v1::FenceToken proto;
  proto.set_queue_id(core::ToString(token.queue_id));
  proto.set_dispatch(token.dispatch.value());
  proto.set_director_epoch(token.director_epoch);
  return proto;
}

}  // namespace callboard::wire
