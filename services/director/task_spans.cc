#include "services/director/task_spans.h"

#include <string>
#include <utility>
#include <variant>

#include "libs/core/task_spans.h"
#include "libs/ports/span_names.h"
#include "services/director/queue_events.h"

namespace callboard {
namespace {

namespace names = ports::span_names;
using core::TaskState;
using director::TaskStep;

ports::FinishedSpan SpanAt(const char* name, const core::TaskRecord& record,
                           const core::SpanContext& context) {
  ports::FinishedSpan span = {.name = name, .context = context, .end = record.event.at};
  // As many as a dispatch that fails has.
  span.attributes.reserve(12);
  span.attributes.push_back({names::kMessagingSystem, names::kMessagingSystemValue});
  span.attributes.push_back({names::kMessageId, core::ToString(record.queue_id)});
  span.attributes.push_back({names::kDestination, names::kDestinationValue});
  return span;
}

// What spans do with the task; a stay in line does nothing.
void AddOperation(const char* name, const char* type, ports::FinishedSpan& span) {
  span.attributes.push_back({names::kOperation, name});
  span.attributes.push_back({names::kOperationType, type});
}

void Fail(const std::string& why, ports::FinishedSpan& span) {
  span.attributes.push_back({names::kErrorType, why});
  span.status = absl::UnknownError(why);
}

// Why a dispatch came to nothing and the task is in line again.
const char* WhyReturned(const core::Returned& returned) {
  switch (returned.blame) {
    case core::Blame::kTookAgentDown:
      return "agent_lost";
    case core::Blame::kAgentFailedIt:
      return returned.could_not_begin() ? "not_started" : "agent_failed";
    case core::Blame::kNobody:
      return returned.reported ? "run_failed" : "director_restarted";
  }
  return "";
}

// How the task ended, if it did. What its error says may come from anywhere.
void AddEnd(const core::TaskRecord& record, ports::FinishedSpan& span) {
  const auto* ended = std::get_if<core::Ended>(&record.change);
  if (ended == nullptr) return;
  span.attributes.push_back({names::kTaskState, Name(ended->state)});
  if (!ended->reason.has_value()) return;
  span.attributes.push_back({names::kTaskReason, Name(*ended->reason)});
  Fail(Name(*ended->reason), span);
}

// Of a task that nobody submitted: an operator had it tried again.
ports::FinishedSpan RedriveSpan(const core::TaskRecord& record, const TaskStep& step) {
  ports::FinishedSpan span = SpanAt(names::kRedrive, record, step.trace);
  span.kind = ports::SpanKind::kProducer;
  span.start = step.submitted_at;
  AddOperation("redrive", names::kTypeCreate, span);
  span.attributes.push_back(
      {names::kRedriveOf, core::ToString(*std::get<core::Admitted>(record.change).redrive_of)});
  return span;
}

ports::FinishedSpan WaitSpan(const core::TaskRecord& record, const TaskStep& step) {
  core::SpanContext context = step.trace;
  context.span_id = core::WaitSpanOf(record.queue_id, step.dispatch);
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
  if (step.from == TaskState::kWorking) span.events.push_back({names::kAccepted, step.since});
  if (const auto* returned = std::get_if<core::Returned>(&record.change)) {
    Fail(WhyReturned(*returned), span);
  }
  AddEnd(record, span);
  return span;
}

// What SpanOf() needs of a record, without prompts and results.
core::TaskRecord GistOf(const core::TaskRecord& record) {
  struct Gist {
    core::TaskChange operator()(const core::Admitted& admitted) const {
      return core::Admitted{.redrive_of = admitted.redrive_of};
    }
    core::TaskChange operator()(const core::Returned& returned) const {
      return core::Returned{.blame = returned.blame, .reported = returned.reported};
    }
    core::TaskChange operator()(const core::Ended& ended) const {
      core::Ended gist = {.state = ended.state, .reason = ended.reason};
      if (ended.run.has_value()) gist.run.emplace();
      return gist;
    }
    core::TaskChange operator()(const core::Dispatched&) const { return core::Dispatched(); }
    core::TaskChange operator()(const core::Accepted& same) const { return same; }
    core::TaskChange operator()(const core::Bounced&) const { return core::Bounced(); }
    core::TaskChange operator()(const core::CancelRequested& same) const { return same; }
    core::TaskChange operator()(const core::Noted& same) const { return same; }
  };
  return {.queue_id = record.queue_id,
          .event = {.at = record.event.at, .agent = record.event.agent},
          .change = std::visit(Gist(), record.change)};
}

}  // namespace

bool EndsSpan(const core::TaskRecord& record) {
  struct Verdict {
    bool operator()(const core::Admitted& admitted) const {
      return admitted.redrive_of.has_value();
    }
    bool operator()(const core::Dispatched&) const { return true; }
    bool operator()(const core::Accepted&) const { return false; }
    bool operator()(const core::Bounced&) const { return true; }
    bool operator()(const core::Returned&) const { return true; }
    bool operator()(const core::CancelRequested&) const { return false; }
    bool operator()(const core::Ended&) const { return true; }
    bool operator()(const core::Noted&) const { return false; }
  };
  return std::visit(Verdict(), record.change);
}

ports::FinishedSpan SpanOf(const core::TaskRecord& record, const TaskStep& step) {
  if (std::holds_alternative<core::Admitted>(record.change)) return RedriveSpan(record, step);
  return step.from == TaskState::kPending ? WaitSpan(record, step) : DispatchSpan(record, step);
}

ports::FinishedSpan SpanOf(const director::CancelledTask& task) {
  core::SpanContext context = task.origin.trace;
  context.span_id = core::CancelSpanOf(context.span_id);
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

void TaskSpans::OnCancel(const director::CancelledTask& task) {
  observer_.OnCancel(task);
  if (task.origin.trace.trace_id != core::TraceId() && telemetry_.Wants(task.origin.trace)) {
    telemetry_.Emit(SpanOf(task));
  }
}

void TaskSpans::OnTurn(absl::Span<const core::Record> records, absl::Span<const TaskStep> steps) {
  observer_.OnTurn(records, steps);
  for (const TaskStep& step : steps) {
    const auto& record = std::get<core::TaskRecord>(records[step.record]);
    if (!EndsSpan(record) || !telemetry_.Wants(step.trace)) continue;
    telemetry_.EmitLater(step.trace, [gist = GistOf(record), step] { return SpanOf(gist, step); });
  }
}

}  // namespace callboard
