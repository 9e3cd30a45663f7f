#include "libs/core/life.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/check.h"
#include "libs/core/task_spans.h"

namespace callboard::core {
namespace {

Terms TermsOf(const Admitted& admitted) {
  const TaskSpec& spec = *admitted.spec;
  return {.identity = admitted.identity,
          .source = spec.source.value_or(TaskSource::kApi),
          .source_job = spec.source_job,
          .job_type = spec.job_type,
          .labels = spec.labels,
          .required_labels = spec.required_labels,
          .lane = spec.lane,
          .fairness_key = spec.fairness_key,
          .timeout = spec.timeout,
          .max_attempts = spec.max_attempts,
          .retry_on = spec.retry_on,
          .on_agent_lost = spec.on_agent_lost.value_or(OnAgentLost::kFail),
          .overlap = spec.overlap};
}

// What a change asks of the life it happens to: empty when all is there, else what is wrong.
struct Rule {
  const Life& life;

  absl::string_view operator()(const Admitted& change) const {
    if (life.events != 0) return "is admitted a second time";
    return change.spec == nullptr ? "says nothing of what was asked for" : "";
  }
  absl::string_view operator()(const Dispatched& change) const {
    if (!life.is_pending()) return "is given to an agent while it is not pending";
    // Never reused, in any epoch.
    return change.dispatch > life.dispatch ? "" : "has a dispatch number that was used before";
  }
  absl::string_view operator()(const Accepted&) const {
    return life.state == TaskState::kDispatching ? "" : "is accepted while nobody was asked";
  }
  absl::string_view operator()(const Bounced& change) const {
    if (life.state != TaskState::kDispatching) return "is bounced while nobody was asked";
    if (life.is_cancel_requested()) return "returns although a cancel was asked for";
    return change.dispatched.dispatch >= life.dispatch ? "" : "is bounced from an older dispatch";
  }
  absl::string_view operator()(const Returned& change) const {
    if (!life.is_in_flight()) return "returns while it is not in flight";
    if (life.is_cancel_requested()) return "returns although a cancel was asked for";
    return AttemptsAfter(change.counts) < life.terms->max_attempts
               ? ""
               : "returns without attempts left";
  }
  absl::string_view operator()(const CancelRequested&) const {
    if (!life.is_in_flight()) return "is asked to be cancelled while it is not in flight";
    return life.is_cancel_requested() ? "is asked to be cancelled a second time" : "";
  }
  absl::string_view operator()(const Ended& change) const {
    if (life.is_ended()) return "ends a second time";
    if (change.state != TaskState::kCompleted && change.state != TaskState::kFailed &&
        change.state != TaskState::kCancelled) {
      return "ends in a state that is no end";
    }
    if (life.is_cancel_requested() && change.state != TaskState::kCancelled) {
      return "ends otherwise than cancelled although a cancel was asked for";
    }
    if (AttemptsAfter(change.counts) > life.terms->max_attempts) return "has too many attempts";
    return change.reason.has_value() == (change.state == TaskState::kFailed)
               ? ""
               : "fails without a reason, or has one without failing";
  }
  absl::string_view operator()(const Noted&) const { return ""; }

 private:
  uint32_t AttemptsAfter(bool counts) const { return life.attempts + (counts ? 1 : 0); }
};

// Does a change that its Rule allows.
struct Step {
  const TaskRecord& record;
  TermsPool& terms;
  Life& life;

  void operator()(const Admitted& change) const {
    const TaskSpec& spec = *change.spec;
    life.queue_id = record.queue_id;
    life.terms = terms.Get(TermsOf(change));
    life.request_id = spec.request_id;
    life.session_id = spec.session_id;
    life.earliest_start_at = spec.earliest_start_at.value_or(absl::InfinitePast());
    life.deadline_at = spec.deadline_at.value_or(absl::InfiniteFuture());
    life.fingerprint = change.fingerprint;
    life.submitted_at = change.submitted_at;
    life.created_at = record.event.at;
    life.state = TaskState::kPending;
    life.sequence = change.sequence;
    life.admitted = change.sequence;
    // What was stored before there were traces has none.
    life.trace = change.trace == SpanContext() ? SubmitSpanOf(record.queue_id) : change.trace;
  }

  void operator()(const Dispatched& change) const {
    life.state = TaskState::kDispatching;
    Tries& tries = life.tries.Mutable();
    const bool is_first = life.dispatch == DispatchNumber();
    tries.begins_trace = !is_first && record.event.at - tries.since > kTraceGapMax;
    tries.not_before.reset();
    tries.backoff = absl::ZeroDuration();
    tries.since = record.event.at;
    SetDispatch(change, record.event.at);
  }

  void operator()(const Accepted&) const {
    life.state = TaskState::kWorking;
    life.tries.Mutable().since = record.event.at;
  }

  void operator()(const Bounced& change) const {
    SetDispatch(change.dispatched, change.dispatched_at);
    life.state = TaskState::kPending;
    Tries& tries = life.tries.Mutable();
    // The record may have taken the place of the one that says it, and nobody asks any more.
    tries.begins_trace = false;
    tries.since = record.event.at;
    tries.busy_rejections = change.busy_rejections;
    life.sequence = change.sequence;
  }

  void operator()(const Returned& change) const {
    EndDispatch(change.counts, change.blame, change.error);
    Tries& tries = life.tries.Mutable();
    const bool was_accepted = change.reported || life.state == TaskState::kWorking;
    if (was_accepted && !change.could_not_begin()) tries.ran_on = tries.agent;
    life.state = TaskState::kPending;
    life.sequence = change.sequence;
    tries.since = record.event.at;
    tries.backoff = change.backoff;
    if (change.backoff > absl::ZeroDuration()) {
      tries.not_before = record.event.at + change.backoff;
    }
    if (change.reported) tries.reported.insert(life.dispatch);
  }

  void operator()(const CancelRequested&) const {
    life.tries.Mutable().cancel_requested_at = record.event.at;
  }

  void operator()(const Ended& change) const {
    EndDispatch(change.counts, change.blame, change.error);
    const bool was_working = life.state == TaskState::kWorking;
    life.state = change.state;
    life.finished_at = record.event.at;
    if (life.dispatch == DispatchNumber()) return;
    Tries& tries = life.tries.Mutable();
    tries.not_before.reset();
    // One that was cancelled, or of which nothing is heard, ran if it was accepted.
    using End = RunResult::End;
    const End end = change.run.has_value() ? change.run->end : End::kCancelled;
    if (end == End::kCancelled ? was_working : end != End::kNotStarted) tries.ran_on = tries.agent;
    if (change.run.has_value()) tries.reported.insert(life.dispatch);
  }

  void operator()(const Noted&) const {
    if (record.event.kind == TaskEventKind::kOrphanResult) {
      life.tries.Mutable().orphaned = record.event.dispatch;
    }
  }

 private:
  void SetDispatch(const Dispatched& dispatched, absl::Time at) const {
    life.dispatch = dispatched.dispatch;
    Tries& tries = life.tries.Mutable();
    tries.dispatched_at = at;
    tries.agent_url = dispatched.agent_url;
    tries.agent = record.event.agent;
    tries.instance_id = dispatched.instance_id;
    tries.director_epoch = dispatched.director_epoch;
  }

  void EndDispatch(bool counts, Blame blame, const std::string& error) const {
    if (counts) ++life.attempts;
    if (error.empty() && blame == Blame::kNobody) return;
    Tries& tries = life.tries.Mutable();
    if (!error.empty()) tries.last_error = error;
    if (blame != Blame::kNobody) tries.failed_on.insert(tries.agent);
    if (blame == Blame::kTookAgentDown) tries.took_down.insert(tries.agent);
  }
};

}  // namespace

std::set<std::string> FeaturesNeededBy(const Terms&) { return {}; }

base::CopyOnWrite<Terms> TermsPool::Get(Terms terms) {
  const auto found = all_.find(terms);
  if (found != all_.end()) return *found;
  return *all_.insert(base::CopyOnWrite<Terms>(std::move(terms))).first;
}

void TermsPool::Release(const Terms& terms) {
  const auto found = all_.find(terms);
  if (found != all_.end() && !found->is_shared()) all_.erase(found);
}

std::string WhyImpossible(const TaskRecord& record, const Life& life) {
  // The next one; or, live, one that takes the place of the last ones. At recovery those are gone.
  const bool follows =
      record.number == life.events + 1 || record.number + record.replaces == life.events + 1;
  if (!follows) return absl::StrCat("comes after record ", life.events);
  if (life.events == 0 && !std::holds_alternative<Admitted>(record.change)) {
    return "does not begin a task";
  }
  return std::string(std::visit(Rule{life}, record.change));
}

void Apply(const TaskRecord& record, TermsPool& terms, Life& life) {
  const std::string why = WhyImpossible(record, life);
  CHECK(why.empty()) << ToString(record.queue_id) << ": record " << record.number << " " << why;
  std::visit(Step{record, terms, life}, record.change);
  life.events = record.number;
  // A version that knew no numbers of events may have written in between; they grow all the same.
  life.event_number = std::max(life.event_number + 1, record.event.number);
  life.last_event = record.event.kind;
  if (record.event.kind == TaskEventKind::kBusy) {
    life.tries.Mutable().last_busy = record.number;
  } else if (life.tries->last_busy != 0 && record.event.kind != TaskEventKind::kDispatching &&
             record.event.kind != TaskEventKind::kDenied) {
    life.tries.Mutable().last_busy = 0;
  }
}

Task TaskFrom(absl::Span<const TaskRecord> records) {
  TermsPool terms;
  Life life;
  Task task;
  for (const TaskRecord& record : records) {
    Apply(record, terms, life);
    if (const auto* admitted = std::get_if<Admitted>(&record.change)) {
      task.spec = *admitted->spec;
      task.policy = admitted->policy;
      task.redrive_of = admitted->redrive_of;
    } else if (const auto* ended = std::get_if<Ended>(&record.change)) {
      task.reason = ended->reason;
      task.finished_at = record.event.at;
      if (!ended->run.has_value()) continue;
      task.exit_code = ended->run->exit_code;
      task.signal = ended->run->signal;
      task.result = ended->run->result;
      task.result_truncated = ended->run->result_truncated;
    }
  }
  task.queue_id = life.queue_id;
  task.trace_id = life.trace.trace_id;
  task.state = life.state;
  task.submitted_at = life.submitted_at;
  task.created_at = life.created_at;
  task.dispatch = life.dispatch;
  task.attempts = life.attempts;
  if (life.dispatch != DispatchNumber()) task.dispatched_at = life.tries->dispatched_at;
  task.agent_url = life.tries->agent_url;
  task.busy_rejections = life.tries->busy_rejections;
  task.not_before = life.tries->not_before;
  task.last_error = life.tries->last_error;
  task.cancel_requested_at = life.tries->cancel_requested_at;
  return task;
}

std::vector<TaskEvent> EventsFrom(absl::Span<const TaskRecord> records) {
  std::vector<TaskEvent> events;
  for (const TaskRecord& record : records) {
    if (const auto* admitted = std::get_if<Admitted>(&record.change)) {
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

SpanContext Life::dispatch_trace() const {
  return {.trace_id = tries->begins_trace ? DispatchTraceOf(queue_id, dispatch) : trace.trace_id,
          .span_id = DispatchSpanOf(queue_id, dispatch),
          .sampled = trace.sampled};
}

uint64_t& CountOf(core::StateCounts& counts, TaskState state) {
  switch (state) {
    case TaskState::kPending:
      return counts.pending;
    case TaskState::kDispatching:
      return counts.dispatching;
    case TaskState::kWorking:
      return counts.working;
    case TaskState::kCompleted:
      return counts.completed;
    case TaskState::kFailed:
      return counts.failed;
    case TaskState::kCancelled:
      return counts.cancelled;
  }
  CHECK(false) << "no such state";
  return counts.pending;
}

}  // namespace callboard::core
