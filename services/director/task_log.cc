#include "services/director/task_log.h"

#include <algorithm>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/wire/enums.h"

namespace callboard {
namespace {

using core::LifecycleState;
using director::TaskStep;

// Longer error texts of agents are cut in log lines.
constexpr size_t kErrorBytesShown = 256;

const std::string& ErrorOf(const core::TaskRecord& record) {
  static const std::string none;
  static const std::string busy = "agent busy";
  if (const auto* returned = std::get_if<core::TaskReturned>(&record.change))
    return returned->error;
  if (const auto* ended = std::get_if<core::TaskEnded>(&record.change)) return ended->error;
  return std::holds_alternative<core::StartAnsweredBusy>(record.change) ? busy : none;
}

void AddEnd(const core::TaskRecord& record, const TaskStep& step,
            std::vector<base::LogField>& fields) {
  const auto& ended = std::get<core::TaskEnded>(record.change);
  fields.emplace_back("state", Name(ended.state));
  if (ended.reason.has_value()) fields.emplace_back("reason", Name(*ended.reason));
  if (ended.run.has_value()) {
    if (ended.run->exit_code.has_value()) fields.emplace_back("exit_code", *ended.run->exit_code);
    if (!ended.run->signal.empty()) fields.emplace_back("signal", ended.run->signal);
  }
  if (const auto run = TimesOf(record, step).run) {
    fields.emplace_back("run_seconds", absl::ToDoubleSeconds(*run));
  }
}

void AddTrace(const core::TraceId& trace, std::vector<base::LogField>& fields) {
  if (trace != core::TraceId()) fields.emplace_back("trace_id", ToString(trace));
}

void AddOrigin(const director::SubmitOrigin& origin, std::vector<base::LogField>& fields) {
  fields.emplace_back("source", origin.source.empty() ? core::Name(core::TaskSource::kApi)
                                                      : absl::string_view(origin.source));
  if (!origin.source_job.empty()) fields.emplace_back("job", origin.source_job);
  fields.emplace_back("identity", origin.identity);
}

}  // namespace

absl::string_view Name(DispatchOutcome outcome) {
  switch (outcome) {
    case DispatchOutcome::kAccepted:
      return "accepted";
    case DispatchOutcome::kBusy:
      return "busy";
    case DispatchOutcome::kFailed:
      return "failed";
    case DispatchOutcome::kRejected:
      return "rejected";
    case DispatchOutcome::kCancelled:
      return "cancelled";
  }
  return "";
}

absl::string_view Name(director::CancelPhase phase) {
  switch (phase) {
    case director::CancelPhase::kWaiting:
      return "waiting";
    case director::CancelPhase::kQueued:
      return "queued";
    case director::CancelPhase::kDispatching:
      return "dispatching";
    case director::CancelPhase::kInFlight:
      return "in_flight";
  }
  return "";
}

absl::string_view Name(QueueEvent event) {
  switch (event) {
    case QueueEvent::kTaskAdded:
      return "task_added";
    case QueueEvent::kDispatch:
      return "dispatch";
    case QueueEvent::kDispatchSuccess:
      return "dispatch_success";
    case QueueEvent::kDispatchFailed:
      return "dispatch_failed";
    case QueueEvent::kRunFailed:
      return "run_failed";
    case QueueEvent::kCancelRequested:
      return "cancel_requested";
    case QueueEvent::kTaskEnded:
      return "task_ended";
    case QueueEvent::kOrphanResult:
      return "orphan_result";
    case QueueEvent::kUnknownRun:
      return "unknown_run";
    case QueueEvent::kSubmitRejected:
      return "submit_rejected";
  }
  return "";
}

std::string Name(LifecycleState state) {
  return wire::EnumText(*v1::Task::State_descriptor(), wire::ToProto(wire::kTaskStates, state));
}

std::string Name(core::FailureReason reason) {
  return absl::AsciiStrToLower(
      wire::EnumText(*v1::Task::Reason_descriptor(), wire::ToProto(wire::kFailureReasons, reason)));
}

std::string ReasonOf(const absl::Status& error) {
  const std::string reason = base::GetErrorDetails(error).reason;
  return absl::AsciiStrToLower(reason.empty() ? absl::StatusCodeToString(error.code()) : reason);
}

std::optional<DispatchOutcome> OutcomeOf(const core::TaskRecord& record, const TaskStep& step) {
  if (step.from != LifecycleState::kDispatching) return std::nullopt;
  if (std::holds_alternative<core::StartAccepted>(record.change)) return DispatchOutcome::kAccepted;
  if (std::holds_alternative<core::StartAnsweredBusy>(record.change)) return DispatchOutcome::kBusy;
  if (const auto* returned = std::get_if<core::TaskReturned>(&record.change)) {
    return returned->reported ? DispatchOutcome::kAccepted : DispatchOutcome::kFailed;
  }
  const auto* ended = std::get_if<core::TaskEnded>(&record.change);
  if (ended == nullptr) return std::nullopt;
  if (ended->state == LifecycleState::kCancelled) return DispatchOutcome::kCancelled;
  if (ended->run.has_value()) return DispatchOutcome::kAccepted;
  return ended->reason == core::FailureReason::kAgentRejected ? DispatchOutcome::kRejected
                                                              : DispatchOutcome::kFailed;
}

QueueTimes TimesOf(const core::TaskRecord& record, const TaskStep& step) {
  const auto from = [&record](absl::Time since) {
    return std::max(absl::ZeroDuration(), record.event.at - since);
  };
  if (std::holds_alternative<core::TaskAdmitted>(record.change)) {
    return {.waiting = from(step.submitted_at)};
  }
  if (const auto* dispatched = std::get_if<core::TaskDispatched>(&record.change)) {
    const bool is_first = dispatched->dispatch == core::DispatchNumber(1);
    return {.pending = from(step.since), .wait = from(is_first ? step.submitted_at : step.since)};
  }
  if (OutcomeOf(record, step).has_value()) return {.dispatch = from(step.since)};
  const bool run_has_ended = std::holds_alternative<core::TaskReturned>(record.change) ||
                             std::holds_alternative<core::TaskEnded>(record.change);
  if (step.from == LifecycleState::kWorking && run_has_ended) return {.run = from(step.since)};
  return {};
}

absl::InlinedVector<QueueLogLine, 2> LogLinesOf(const core::TaskRecord& record,
                                                const TaskStep& step) {
  using base::LogLevel;
  absl::InlinedVector<QueueLogLine, 2> lines;
  const std::optional<DispatchOutcome> outcome = OutcomeOf(record, step);
  if (outcome == DispatchOutcome::kAccepted) {
    lines.push_back({QueueEvent::kDispatchSuccess});
  } else if (outcome.has_value() && outcome != DispatchOutcome::kCancelled) {
    lines.push_back({QueueEvent::kDispatchFailed, LogLevel::kWarning});
  }
  struct AddLinesOfChange {
    void operator()(const core::TaskAdmitted&) const { lines.push_back({QueueEvent::kTaskAdded}); }
    void operator()(const core::TaskDispatched&) const { lines.push_back({QueueEvent::kDispatch}); }
    void operator()(const core::StartAccepted&) const {}
    void operator()(const core::StartAnsweredBusy&) const {}
    void operator()(const core::TaskReturned& returned) const {
      if (from == LifecycleState::kDispatching && !returned.reported) return;
      lines.push_back({QueueEvent::kRunFailed, LogLevel::kWarning});
    }
    void operator()(const core::CancelRequested&) const {}
    void operator()(const core::TaskEnded& ended) const {
      lines.push_back({QueueEvent::kTaskEnded, ended.state == LifecycleState::kFailed
                                                   ? LogLevel::kWarning
                                                   : LogLevel::kInfo});
    }
    void operator()(const core::EventOnly&) const {
      if (kind != core::TaskEventKind::kOrphanResult) return;
      lines.push_back({QueueEvent::kOrphanResult, LogLevel::kWarning});
    }
    core::TaskEventKind kind;
    LifecycleState from;
    absl::InlinedVector<QueueLogLine, 2>& lines;
  };
  std::visit(AddLinesOfChange{record.event.kind, step.from, lines}, record.change);
  return lines;
}

std::vector<base::LogField> FieldsOf(QueueEvent event, const core::TaskRecord& record,
                                     const TaskStep& step) {
  std::vector<base::LogField> fields = {{"queue_id", ToString(record.queue_id)}};
  if (record.event.dispatch != core::DispatchNumber()) {
    fields.emplace_back("task_id", TaskIdText(record.queue_id, record.event.dispatch));
    fields.emplace_back("agent", record.event.agent);
  }
  const std::string attempt = absl::StrCat(step.attempts + 1, "/", step.max_attempts);
  const auto add_error = [&] {
    const absl::string_view error = base::Utf8Prefix(ErrorOf(record), kErrorBytesShown);
    if (!error.empty()) fields.emplace_back("error", error);
  };
  switch (event) {
    case QueueEvent::kTaskAdded: {
      const core::TaskSpec& spec = *std::get<core::TaskAdmitted>(record.change).spec;
      fields.emplace_back("depth", record.event.place_after);
      fields.emplace_back("source", core::Name(spec.terms.source));
      break;
    }
    case QueueEvent::kDispatch:
      fields.emplace_back("dispatch", record.event.dispatch.value());
      fields.emplace_back("attempt", attempt);
      break;
    case QueueEvent::kDispatchFailed:
      add_error();
      fields.emplace_back("attempt", attempt);
      if (const auto* answered_busy = std::get_if<core::StartAnsweredBusy>(&record.change)) {
        fields.emplace_back("busy", answered_busy->busy_rejections);
      }
      if (std::holds_alternative<core::TaskEnded>(record.change))
        fields.emplace_back("final", true);
      break;
    case QueueEvent::kRunFailed:
      fields.emplace_back("attempt", attempt);
      add_error();
      break;
    case QueueEvent::kTaskEnded:
      AddEnd(record, step, fields);
      // The error of a failed dispatch is in its dispatch_failed line.
      if (step.from == LifecycleState::kWorking) add_error();
      break;
    case QueueEvent::kDispatchSuccess:
    case QueueEvent::kCancelRequested:
    case QueueEvent::kOrphanResult:
    case QueueEvent::kUnknownRun:
    case QueueEvent::kSubmitRejected:
      break;
  }
  fields.emplace_back("trace_id", ToString(step.trace.trace_id));
  return fields;
}

std::vector<base::LogField> FieldsOf(const director::OrphanResult& orphan) {
  std::vector<base::LogField> fields = {
      {"queue_id", ToString(orphan.token.queue_id)},
      {"task_id", TaskIdText(orphan.token.queue_id, orphan.token.dispatch)},
      {"agent", orphan.agent}};
  if (orphan.is_run) {
    fields.emplace_back("error", "the store does not know this task; was data_dir replaced?");
  }
  AddTrace(orphan.trace, fields);
  return fields;
}

std::vector<base::LogField> FieldsOf(const absl::Status& error,
                                     const director::SubmitOrigin& origin) {
  std::vector<base::LogField> fields = {{"reason", ReasonOf(error)}};
  const auto metadata = base::GetErrorDetails(error).metadata;
  const auto depth = metadata.find("depth");
  if (depth != metadata.end()) fields.emplace_back("depth", depth->second);
  AddOrigin(origin, fields);
  AddTrace(origin.trace.trace_id, fields);
  return fields;
}

std::vector<base::LogField> FieldsOf(const director::CancelledTask& task) {
  std::vector<base::LogField> fields;
  if (task.queue_id != core::QueueId()) fields.emplace_back("queue_id", ToString(task.queue_id));
  if (task.dispatch != core::DispatchNumber()) {
    fields.emplace_back("task_id", TaskIdText(task.queue_id, task.dispatch));
    fields.emplace_back("agent", task.agent);
  }
  fields.emplace_back("phase", Name(task.phase));
  fields.emplace_back("who", task.who);
  if (task.phase == director::CancelPhase::kWaiting) AddOrigin(task.origin, fields);
  AddTrace(task.origin.trace.trace_id, fields);
  return fields;
}

}  // namespace callboard
