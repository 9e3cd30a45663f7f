#include "services/director/task_spans.h"

#include <string>
#include <utility>
#include <variant>

#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"
#include "services/director/task_log.h"

namespace callboard {
namespace {

namespace names = ports::span_names;
using core::LifecycleState;
using director::TaskStep;

ports::FinishedSpan SpanAt(const char* name, const core::TaskRecord& record,
                           const core::SpanContext& context) {
  ports::FinishedSpan span = {.name = name, .context = context, .end = record.event.at};
  // The most that a span has: a failed dispatch.
  span.attributes.reserve(12);
  span.attributes.push_back({names::kMessagingSystem, names::kMessagingSystemValue});
  span.attributes.push_back({names::kMessageId, core::ToString(record.queue_id)});
  span.attributes.push_back({names::kDestination, names::kDestinationValue});
  return span;
}

// Adds the messaging operation of the span. A wait in the queue has none.
void AddOperation(const char* name, const char* type, ports::FinishedSpan& span) {
  span.attributes.push_back({names::kOperation, name});
  span.attributes.push_back({names::kOperationType, type});
}

void Fail(const std::string& why, ports::FinishedSpan& span) {
  span.attributes.push_back({names::kErrorType, why});
  span.status = absl::UnknownError(why);
}

// Returns the error type of a dispatch that returned its task to the queue.
const char* WhyReturned(const core::TaskReturned& returned) {
  switch (returned.failure) {
    case core::DispatchFailure::kAgentLost:
      return "agent_lost";
    case core::DispatchFailure::kAgentFailed:
      return returned.could_not_start() ? "not_started" : "agent_failed";
    case core::DispatchFailure::kNone:
      return returned.reported ? "run_failed" : "director_restarted";
  }
  return "";
}

// Adds the end of the task, if the record ends it. Leaves out the error text, which may contain
// anything.
void AddEnd(const core::TaskRecord& record, ports::FinishedSpan& span) {
  const auto* ended = std::get_if<core::TaskEnded>(&record.change);
  if (ended == nullptr) return;
  span.attributes.push_back({names::kTaskState, Name(ended->state)});
  if (!ended->reason.has_value()) return;
  span.attributes.push_back({names::kTaskReason, Name(*ended->reason)});
  Fail(Name(*ended->reason), span);
}

// Returns the root span of a redriven task, which has no submit span.
ports::FinishedSpan RedriveSpan(const core::TaskRecord& record, const TaskStep& step) {
  ports::FinishedSpan span = SpanAt(names::kRedrive, record, step.trace);
  span.kind = ports::SpanKind::kProducer;
  span.start = step.submitted_at;
  AddOperation("redrive", names::kTypeCreate, span);
  span.attributes.push_back(
      {names::kRedriveOf, core::ToString(*std::get<core::TaskAdmitted>(record.change).redrive_of)});
  return span;
}

ports::FinishedSpan WaitSpan(const core::TaskRecord& record, const TaskStep& step) {
  core::SpanContext context = step.trace;
  context.span_id = core::WaitSpanId(record.queue_id, step.dispatch);
  ports::FinishedSpan span = SpanAt(names::kWait, record, context);
  span.parent = step.trace.span_id;
  const bool is_first = step.dispatch == core::DispatchNumber();
  span.start = is_first ? step.submitted_at : step.since;
  if (is_first) span.events.push_back({names::kWaiting, step.submitted_at});
  span.events.push_back({names::kPending, step.since});
  AddEnd(record, span);
  return span;
}

ports::FinishedSpan DispatchSpan(const core::TaskRecord& record, const TaskStep& step) {
  ports::FinishedSpan span = SpanAt(names::kDispatch, record, step.dispatch_trace);
  span.kind = ports::SpanKind::kProducer;
  span.start = step.dispatched_at;
  AddOperation("dispatch", names::kTypeSend, span);
  if (step.dispatch_trace.trace_id == step.trace.trace_id) {
    span.parent = step.trace.span_id;
  } else {
    span.links.push_back(step.trace);
  }
  const DispatchOutcome outcome = OutcomeOf(record, step).value_or(DispatchOutcome::kAccepted);
  span.attributes.push_back({names::kOutcome, std::string(Name(outcome))});
  span.attributes.push_back({names::kAgent, record.event.agent});
  span.attributes.push_back({names::kDispatchNumber, static_cast<int64_t>(step.dispatch.value())});
  span.attributes.push_back({names::kAttempt, int64_t{step.attempts} + 1});
  if (step.from == LifecycleState::kWorking) span.events.push_back({names::kAccepted, step.since});
  if (const auto* returned = std::get_if<core::TaskReturned>(&record.change)) {
    Fail(WhyReturned(*returned), span);
  }
  AddEnd(record, span);
  return span;
}

// Returns a copy of the fields that SpanOf() needs, without prompts and results.
core::TaskRecord SpanFieldsOf(const core::TaskRecord& record) {
  struct CopySpanFields {
    core::TaskChange operator()(const core::TaskAdmitted& admitted) const {
      return core::TaskAdmitted{.redrive_of = admitted.redrive_of};
    }
    core::TaskChange operator()(const core::TaskReturned& returned) const {
      return core::TaskReturned{.failure = returned.failure, .reported = returned.reported};
    }
    core::TaskChange operator()(const core::TaskEnded& ended) const {
      core::TaskEnded copy = {.state = ended.state, .reason = ended.reason};
      if (ended.run.has_value()) copy.run.emplace();
      return copy;
    }
    core::TaskChange operator()(const core::TaskDispatched&) const {
      return core::TaskDispatched();
    }
    core::TaskChange operator()(const core::StartAccepted& same) const { return same; }
    core::TaskChange operator()(const core::StartAnsweredBusy&) const {
      return core::StartAnsweredBusy();
    }
    core::TaskChange operator()(const core::CancelRequested& same) const { return same; }
    core::TaskChange operator()(const core::EventOnly& same) const { return same; }
  };
  return {.queue_id = record.queue_id,
          .event = {.at = record.event.at, .agent = record.event.agent},
          .change = std::visit(CopySpanFields(), record.change)};
}

}  // namespace

bool EndsSpan(const core::TaskRecord& record) {
  struct ChangeEndsSpan {
    bool operator()(const core::TaskAdmitted& admitted) const {
      return admitted.redrive_of.has_value();
    }
    bool operator()(const core::TaskDispatched&) const { return true; }
    bool operator()(const core::StartAccepted&) const { return false; }
    bool operator()(const core::StartAnsweredBusy&) const { return true; }
    bool operator()(const core::TaskReturned&) const { return true; }
    bool operator()(const core::CancelRequested&) const { return false; }
    bool operator()(const core::TaskEnded&) const { return true; }
    bool operator()(const core::EventOnly&) const { return false; }
  };
  return std::visit(ChangeEndsSpan(), record.change);
}

ports::FinishedSpan SpanOf(const core::TaskRecord& record, const TaskStep& step) {
  if (std::holds_alternative<core::TaskAdmitted>(record.change)) return RedriveSpan(record, step);
  return step.from == LifecycleState::kPending ? WaitSpan(record, step)
                                               : DispatchSpan(record, step);
}

ports::FinishedSpan SpanOf(const director::CancelledTask& task) {
  core::SpanContext context = task.origin.trace;
  context.span_id = core::CancelSpanId(context.span_id);
  ports::FinishedSpan span = {.name = names::kCancel,
                              .context = context,
                              .parent = task.origin.trace.span_id,
                              .start = task.at,
                              .end = task.at};
  span.attributes.push_back({names::kMessagingSystem, names::kMessagingSystemValue});
  span.attributes.push_back({names::kDestination, names::kDestinationValue});
  span.attributes.push_back({names::kCancelPhase, std::string(Name(task.phase))});
  if (task.phase == director::CancelPhase::kWaiting) {
    span.start = std::min(task.at, task.origin.arrived);
  } else {
    span.attributes.push_back({names::kMessageId, core::ToString(task.queue_id)});
  }
  return span;
}

void EmitSpan(const director::CancelledTask& task, ports::Telemetry& telemetry) {
  if (task.origin.trace.trace_id != core::TraceId() && telemetry.ShouldRecord(task.origin.trace)) {
    telemetry.Emit(SpanOf(task));
  }
}

void EmitSpans(absl::Span<const core::Record> records, absl::Span<const TaskStep> steps,
               ports::Telemetry& telemetry) {
  for (const TaskStep& step : steps) {
    const auto& record = std::get<core::TaskRecord>(records[step.record]);
    if (!EndsSpan(record) || !telemetry.ShouldRecord(step.trace)) continue;
    telemetry.EmitLater(step.trace,
                        [fields = SpanFieldsOf(record), step] { return SpanOf(fields, step); });
  }
}

}  // namespace callboard
