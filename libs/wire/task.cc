#include "libs/wire/task.h"

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/wire/enums.h"
#include "libs/wire/fields.h"
#include "libs/wire/time.h"

namespace callboard::wire {

// ---- Tasks, their events and fence tokens -------------------------------------------------------

namespace {

std::string FormatTaskId(core::QueueId id, core::DispatchNumber dispatch) {
  return dispatch.value() == 0 ? "" : core::TaskIdText(id, dispatch);
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

v1::Task ToProto(const core::Task& task) {
  v1::Task proto;
  // A task has the fields of its spec under the same numbers. A deleted task has no spec.
  if (task.spec != nullptr) {
    CHECK(proto.ParseFromString(*task.spec)) << core::ToString(task.queue_id);
  }
  if (task.policy.has_value()) proto.set_policy(ToProto(kQueuePolicies, *task.policy));
  proto.set_queue_id(core::ToString(task.queue_id));
  proto.set_state(ToProto(kTaskStates, task.state));
  if (task.reason.has_value()) proto.set_reason(ToProto(kFailureReasons, *task.reason));
  proto.set_position(task.position);
  WriteTimes(task, proto);
  proto.set_task_id(FormatTaskId(task.queue_id, task.dispatch));
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
  if (proto.dispatch() == 0) checks.AddViolation("dispatch", "is required");
  if (proto.director_epoch() == 0) checks.AddViolation("director_epoch", "is required");
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

// ---- Results of runs ----------------------------------------------------------------------------

void WriteResult(const core::RunResult& result, v1::AgentRun& proto) {
  proto.set_state(ToProto(kRunEnds, result.end));
  if (result.exit_code.has_value()) proto.set_exit_code(*result.exit_code);
  proto.set_signal(base::ValidUtf8(result.signal));
  proto.set_result(result.result);
  proto.set_result_truncated(result.result_truncated);
  // The error may contain names of the task's files or variables, which may not be UTF-8.
  proto.set_error(base::ValidUtf8(result.error));
}

absl::StatusOr<core::RunResult> ReadResult(const v1::AgentRun& proto) {
  const std::optional<core::RunResult::End> end = FromProto(kRunEnds, proto.state());
  if (!end.has_value()) {
    FieldChecks checks;
    checks.AddViolation("run.state", "is not a final state of this version");
    return checks.status();
  }
  core::RunResult result = {.end = *end,
                            .signal = proto.signal(),
                            .result = proto.result(),
                            .result_truncated = proto.result_truncated(),
                            .error = proto.error()};
  if (proto.has_exit_code()) result.exit_code = proto.exit_code();
  return result;
}

// ---- The status of the queue --------------------------------------------------------------------

namespace {

void AddLiveCounts(const std::map<std::string, core::LiveCount>& counts,
                   google::protobuf::RepeatedPtrField<v1::LiveCount>& proto) {
  for (const auto& [key, count] : counts) {
    v1::LiveCount& entry = *proto.Add();
    entry.set_key(key);
    entry.set_queued(count.queued);
    entry.set_running(count.running);
  }
}

v1::QueueSwitch SwitchToProto(const core::SwitchCause& cause) {
  v1::QueueSwitch proto;
  proto.set_who(cause.who);
  proto.set_why(cause.why);
  *proto.mutable_at() = ToProto(cause.at);
  return proto;
}

}  // namespace

v1::QueueStatus ToProto(const core::QueueStatus& status) {
  v1::QueueStatus proto;
  proto.set_depth(static_cast<uint32_t>(status.counts.pending));
  proto.set_max_size(status.options.max_size);
  proto.set_policy(ToProto(kQueuePolicies, status.options.policy));
  proto.set_ready(status.ready);
  proto.set_delayed(status.delayed);
  proto.set_waiting(status.waiting);
  proto.set_tickets(status.tickets);
  proto.set_in_flight(static_cast<uint32_t>(status.in_flight()));
  proto.set_max_in_flight(status.max_in_flight);
  proto.set_dispatched_count(status.in_flight());
  proto.set_dispatches_total(status.dispatches_total);
  proto.set_idle(status.is_idle());
  proto.set_oldest_age_seconds(absl::ToDoubleSeconds(status.oldest_age));
  proto.set_paused(status.paused);
  proto.set_draining(status.draining);
  if (status.pause.has_value()) *proto.mutable_pause() = SwitchToProto(*status.pause);
  if (status.drain.has_value()) *proto.mutable_drain() = SwitchToProto(*status.drain);
  proto.set_drain_rate_per_second(status.drain_rate_per_second);
  v1::StateCounts& counts = *proto.mutable_counts();
  counts.set_pending(status.counts.pending);
  counts.set_dispatching(status.counts.dispatching);
  counts.set_working(status.counts.working);
  counts.set_completed(status.counts.completed);
  counts.set_failed(status.counts.failed);
  counts.set_cancelled(status.counts.cancelled);
  AddLiveCounts(status.sources, *proto.mutable_sources());
  AddLiveCounts(status.fairness_keys, *proto.mutable_fairness_keys());
  return proto;
}

}  // namespace callboard::wire
