#include "libs/core/task_state.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/check.h"
#include "libs/core/trace.h"

namespace callboard::core {
namespace {

// Checks that a change may happen to a task. Returns an empty text, or what is wrong.
struct TransitionChecker {
  const TaskState& task;

  absl::string_view operator()(const TaskAdmitted& change) const {
    if (task.last_record != 0) return "was admitted a second time";
    return change.spec == nullptr ? "has no task spec" : "";
  }
  absl::string_view operator()(const TaskDispatched& change) const {
    if (!task.is_pending()) return "was dispatched while it was not pending";
    // Dispatch numbers are never reused, in any epoch.
    return change.dispatch > task.dispatch ? "" : "has a dispatch number that was used before";
  }
  absl::string_view operator()(const StartAccepted&) const {
    return task.state == LifecycleState::kDispatching ? "" : "was accepted without a dispatch";
  }
  absl::string_view operator()(const StartAnsweredBusy& change) const {
    if (task.state != LifecycleState::kDispatching) return "got a busy answer without a dispatch";
    if (task.is_cancel_requested()) return "returned to the queue after a cancel request";
    return change.dispatched.dispatch >= task.dispatch ? ""
                                                       : "got a busy answer to an older dispatch";
  }
  absl::string_view operator()(const TaskReturned& change) const {
    if (!task.is_in_flight()) return "returned to the queue while it was not in flight";
    if (task.is_cancel_requested()) return "returned to the queue after a cancel request";
    return AttemptsAfter(change.counts_as_attempt) < task.terms->max_attempts
               ? ""
               : "returned to the queue without attempts left";
  }
  absl::string_view operator()(const CancelRequested&) const {
    if (!task.is_in_flight()) return "got a cancel request while it was not in flight";
    return task.is_cancel_requested() ? "got a second cancel request" : "";
  }
  absl::string_view operator()(const TaskEnded& change) const {
    if (task.is_ended()) return "ended a second time";
    if (change.state != LifecycleState::kCompleted && change.state != LifecycleState::kFailed &&
        change.state != LifecycleState::kCancelled) {
      return "ended in a state that is not final";
    }
    if (task.is_cancel_requested() && change.state != LifecycleState::kCancelled) {
      return "did not end as cancelled after a cancel request";
    }
    if (AttemptsAfter(change.counts_as_attempt) > task.terms->max_attempts) {
      return "has too many attempts";
    }
    return change.reason.has_value() == (change.state == LifecycleState::kFailed)
               ? ""
               : "failed without a reason, or has a reason without having failed";
  }
  absl::string_view operator()(const EventOnly&) const { return ""; }

 private:
  uint32_t AttemptsAfter(bool counts_as_attempt) const {
    return task.attempts + (counts_as_attempt ? 1 : 0);
  }
};

// Applies a change that the TransitionChecker allows.
struct TransitionApplier {
  const TaskRecord& record;
  PlacementTermsPool& pool;
  TaskState& task;

  void operator()(const TaskAdmitted& change) const {
    const TaskSpec& spec = *change.spec;
    task.queue_id = record.queue_id;
    PlacementTerms terms = spec.terms;
    terms.identity = change.identity;
    task.terms = pool.Get(std::move(terms));
    task.request_id = spec.request_id;
    task.session_id = spec.session_id;
    task.earliest_start_at = spec.earliest_start_at;
    task.deadline_at = spec.deadline_at;
    task.fingerprint = change.fingerprint;
    task.submitted_at = change.submitted_at;
    task.created_at = record.event.at;
    task.state = LifecycleState::kPending;
    task.sequence = change.sequence;
    task.admitted_sequence = change.sequence;
    task.trace = change.trace;
  }

  void operator()(const TaskDispatched& change) const {
    task.state = LifecycleState::kDispatching;
    DispatchHistory& history = task.history.Mutable();
    const bool is_first = task.dispatch == DispatchNumber();
    history.begins_trace = !is_first && record.event.at - history.since > kTraceGapMax;
    history.not_before.reset();
    history.backoff = absl::ZeroDuration();
    history.since = record.event.at;
    SetDispatch(change, record.event.at);
  }

  void operator()(const StartAccepted&) const {
    task.state = LifecycleState::kWorking;
    task.history.Mutable().since = record.event.at;
  }

  void operator()(const StartAnsweredBusy& change) const {
    SetDispatch(change.dispatched, change.dispatched_at);
    task.state = LifecycleState::kPending;
    DispatchHistory& history = task.history.Mutable();
    // This record may have replaced the TaskDispatched record, which determines the flag. At
    // recovery the flag would be false, and it has no use once the dispatch has ended.
    history.begins_trace = false;
    history.since = record.event.at;
    history.busy_rejections = change.busy_rejections;
    task.sequence = change.sequence;
  }

  void operator()(const TaskReturned& change) const {
    EndDispatch(change.counts_as_attempt, change.failure, change.error);
    DispatchHistory& history = task.history.Mutable();
    const bool was_accepted = change.reported || task.state == LifecycleState::kWorking;
    if (was_accepted && !change.could_not_start()) history.ran_on = history.agent;
    task.state = LifecycleState::kPending;
    task.sequence = change.sequence;
    history.since = record.event.at;
    history.backoff = change.backoff;
    if (change.backoff > absl::ZeroDuration()) {
      history.not_before = record.event.at + change.backoff;
    }
    if (change.reported) history.reported_dispatches.insert(task.dispatch);
  }

  void operator()(const CancelRequested&) const {
    task.history.Mutable().cancel_requested_at = record.event.at;
  }

  void operator()(const TaskEnded& change) const {
    EndDispatch(change.counts_as_attempt, change.failure, change.error);
    const bool was_working = task.state == LifecycleState::kWorking;
    task.state = change.state;
    task.finished_at = record.event.at;
    if (task.dispatch == DispatchNumber()) return;
    DispatchHistory& history = task.history.Mutable();
    history.not_before.reset();
    // A run that was cancelled, or that was never reported, has run if it had been accepted.
    using End = RunResult::End;
    const End end = change.run.has_value() ? change.run->end : End::kCancelled;
    if (end == End::kCancelled ? was_working : end != End::kNotStarted)
      history.ran_on = history.agent;
    if (change.run.has_value()) history.reported_dispatches.insert(task.dispatch);
  }

  void operator()(const EventOnly&) const {
    if (record.event.kind == TaskEventKind::kOrphanResult) {
      task.history.Mutable().orphaned_dispatch = record.event.dispatch;
    }
  }

 private:
  void SetDispatch(const TaskDispatched& dispatched, absl::Time at) const {
    task.dispatch = dispatched.dispatch;
    DispatchHistory& history = task.history.Mutable();
    history.dispatched_at = at;
    history.agent_url = dispatched.agent_url;
    history.agent = record.event.agent;
    history.instance_id = dispatched.instance_id;
    history.director_epoch = dispatched.director_epoch;
  }

  void EndDispatch(bool counts_as_attempt, DispatchFailure failure,
                   const std::string& error) const {
    if (counts_as_attempt) ++task.attempts;
    if (error.empty() && failure == DispatchFailure::kNone) return;
    DispatchHistory& history = task.history.Mutable();
    if (!error.empty()) history.last_error = error;
    if (failure != DispatchFailure::kNone) history.failed_on.insert(history.agent);
    if (failure == DispatchFailure::kAgentLost) history.agents_lost.insert(history.agent);
  }
};

}  // namespace

std::set<std::string> RequiredFeatures(const PlacementTerms&) { return {}; }

base::CopyOnWrite<PlacementTerms> PlacementTermsPool::Get(PlacementTerms terms) {
  const auto found = all_.find(terms);
  if (found != all_.end()) return *found;
  return *all_.insert(base::CopyOnWrite<PlacementTerms>(std::move(terms))).first;
}

void PlacementTermsPool::Release(const PlacementTerms& terms) {
  const auto found = all_.find(terms);
  if (found != all_.end() && !found->is_shared()) all_.erase(found);
}

std::string TransitionError(const TaskRecord& record, const TaskState& task) {
  // A record follows the last one, or replaces the last ones. At recovery, replaced records are
  // gone, so a replacing record looks like one that follows.
  const bool follows = record.number == task.last_record + 1 ||
                       record.number + record.replaces == task.last_record + 1;
  if (!follows) return absl::StrCat("cannot follow record ", task.last_record);
  if (task.last_record == 0 && !std::holds_alternative<TaskAdmitted>(record.change)) {
    return "is the first record of its task, but not an admission";
  }
  return std::string(std::visit(TransitionChecker{task}, record.change));
}

void Apply(const TaskRecord& record, PlacementTermsPool& pool, TaskState& task) {
  const std::string error = TransitionError(record, task);
  CHECK(error.empty()) << ToString(record.queue_id) << ": record " << record.number << " " << error;
  std::visit(TransitionApplier{record, pool, task}, record.change);
  task.last_record = record.number;
  task.last_event_number = record.event.number;
  task.last_event_kind = record.event.kind;
  if (record.event.kind == TaskEventKind::kBusy) {
    task.history.Mutable().last_busy = record.number;
  } else if (task.history->last_busy != 0 && record.event.kind != TaskEventKind::kDispatching &&
             record.event.kind != TaskEventKind::kDenied) {
    task.history.Mutable().last_busy = 0;
  }
}

Task BuildTask(absl::Span<const TaskRecord> records) {
  PlacementTermsPool pool;
  TaskState state;
  Task task;
  for (const TaskRecord& record : records) {
    Apply(record, pool, state);
    if (const auto* admitted = std::get_if<TaskAdmitted>(&record.change)) {
      task.spec = admitted->spec->bytes;
      task.policy = admitted->policy;
      task.redrive_of = admitted->redrive_of;
    } else if (const auto* ended = std::get_if<TaskEnded>(&record.change)) {
      task.reason = ended->reason;
      task.finished_at = record.event.at;
      if (!ended->run.has_value()) continue;
      task.exit_code = ended->run->exit_code;
      task.signal = ended->run->signal;
      task.result = ended->run->result;
      task.result_truncated = ended->run->result_truncated;
    }
  }
  task.queue_id = state.queue_id;
  task.trace_id = state.trace.trace_id;
  task.state = state.state;
  task.submitted_at = state.submitted_at;
  task.created_at = state.created_at;
  task.dispatch = state.dispatch;
  task.attempts = state.attempts;
  if (state.dispatch != DispatchNumber()) task.dispatched_at = state.history->dispatched_at;
  task.agent_url = state.history->agent_url;
  task.busy_rejections = state.history->busy_rejections;
  task.not_before = state.history->not_before;
  task.last_error = state.history->last_error;
  task.cancel_requested_at = state.history->cancel_requested_at;
  return task;
}

std::vector<TaskEvent> BuildEvents(absl::Span<const TaskRecord> records) {
  std::vector<TaskEvent> events;
  for (const TaskRecord& record : records) {
    if (const auto* admitted = std::get_if<TaskAdmitted>(&record.change)) {
      TaskEvent& submitted = events.emplace_back(record.event);
      --submitted.number;
      submitted.kind = TaskEventKind::kSubmitted;
      submitted.at = admitted->submitted_at;
      submitted.place_after = 0;
    }
    events.push_back(record.event);
  }
  return events;
}

SpanContext TaskState::dispatch_trace() const {
  return {.trace_id = history->begins_trace ? DispatchTraceId(queue_id, dispatch) : trace.trace_id,
          .span_id = DispatchSpanId(queue_id, dispatch),
          .sampled = trace.sampled};
}

uint64_t& CounterFor(core::StateCounts& counts, LifecycleState state) {
  switch (state) {
    case LifecycleState::kPending:
      return counts.pending;
    case LifecycleState::kDispatching:
      return counts.dispatching;
    case LifecycleState::kWorking:
      return counts.working;
    case LifecycleState::kCompleted:
      return counts.completed;
    case LifecycleState::kFailed:
      return counts.failed;
    case LifecycleState::kCancelled:
      return counts.cancelled;
  }
  CHECK(false) << "no such state";
  return counts.pending;
}

}  // namespace callboard::core
