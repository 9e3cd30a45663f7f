#include "libs/core/life.h"

#include <utility>
#include <variant>

#include "libs/base/check.h"

namespace callboard::core {
namespace {

Terms TermsOf(const Admitted& admitted) {
  const TaskSpec& spec = *admitted.spec;
  return {.identity = admitted.identity,
          .source = spec.source.value_or(TaskSource::kApi),
          .source_job = spec.source_job,
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

struct Step {
  const TaskRecord& record;
  TermsPool& terms;
  Life& life;

  void operator()(const Admitted& change) const {
    CHECK_EQ(life.events, 0u);
    const TaskSpec& spec = *change.spec;
    life.queue_id = record.queue_id;
    life.terms = terms.Get(TermsOf(change));
    life.request_id = spec.request_id;
    life.session_id = spec.session_id;
    life.earliest_start_at = spec.earliest_start_at.value_or(absl::InfinitePast());
    life.deadline_at = spec.deadline_at.value_or(absl::InfiniteFuture());
    life.fingerprint = change.fingerprint;
    life.created_at = record.event.at;
    life.state = TaskState::kPending;
    life.sequence = change.sequence;
    life.admitted = change.sequence;
  }

  void operator()(const Dispatched& change) const {
    CHECK(life.is_pending());
    // Never reused, in any epoch.
    CHECK(change.dispatch > life.dispatch);
    life.state = TaskState::kDispatching;
    Tries& tries = life.tries.Mutable();
    tries.not_before.reset();
    tries.backoff = absl::ZeroDuration();
    SetDispatch(change, record.event.at);
  }

  void operator()(const Accepted&) const {
    CHECK(life.state == TaskState::kDispatching);
    life.state = TaskState::kWorking;
    life.tries.Mutable().ran_on = life.tries->agent;
  }

  void operator()(const Bounced& change) const {
    CHECK(life.state == TaskState::kDispatching);
    CHECK(!life.is_cancel_requested());
    CHECK(change.dispatched.dispatch >= life.dispatch);
    SetDispatch(change.dispatched, change.dispatched_at);
    life.state = TaskState::kPending;
    life.tries.Mutable().busy_rejections = change.busy_rejections;
    life.sequence = change.sequence;
  }

  void operator()(const Returned& change) const {
    CHECK(life.is_in_flight());
    CHECK(!life.is_cancel_requested());
    EndDispatch(change.counts, change.blame, change.error);
    CHECK_LT(life.attempts, life.terms->max_attempts);
    life.state = TaskState::kPending;
    life.sequence = change.sequence;
    Tries& tries = life.tries.Mutable();
    tries.backoff = change.backoff;
    if (change.backoff > absl::ZeroDuration()) {
      tries.not_before = record.event.at + change.backoff;
    }
    if (change.reported) {
      tries.reported.insert(life.dispatch);
      tries.ran_on = tries.agent;
    }
  }

  void operator()(const CancelRequested&) const {
    CHECK(life.is_in_flight());
    CHECK(!life.is_cancel_requested());
    life.tries.Mutable().cancel_requested_at = record.event.at;
  }

  void operator()(const Ended& change) const {
    CHECK(!life.is_ended());
    CHECK(!life.is_cancel_requested() || change.state == TaskState::kCancelled);
    EndDispatch(change.counts, change.blame, change.error);
    CHECK_LE(life.attempts, life.terms->max_attempts);
    life.state = change.state;
    CHECK(life.is_ended());
    CHECK_EQ(change.reason.has_value(), change.state == TaskState::kFailed);
    life.finished_at = record.event.at;
    if (life.dispatch == DispatchNumber()) return;
    Tries& tries = life.tries.Mutable();
    tries.not_before.reset();
    if (change.run.has_value()) {
      tries.reported.insert(life.dispatch);
      if (change.run->end != RunResult::End::kCancelled) tries.ran_on = tries.agent;
    }
  }

  void operator()(const Noted&) const {
    CHECK_GT(life.events, 0u);
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

base::CopyOnWrite<Terms> TermsPool::Get(Terms terms) {
  const auto found = all_.find(terms);
  if (found != all_.end()) return *found;
  return *all_.insert(base::CopyOnWrite<Terms>(std::move(terms))).first;
}

void TermsPool::Release(const Terms& terms) {
  const auto found = all_.find(terms);
  if (found != all_.end() && !found->is_shared()) all_.erase(found);
}

void Apply(const TaskRecord& record, TermsPool& terms, Life& life) {
  // The next one; or, live, one that takes the place of the last ones. At recovery those are gone.
  CHECK(record.event.number == life.events + 1 ||
        record.event.number + record.replaces == life.events + 1)
      << ToString(record.queue_id) << ": record " << record.event.number << " after "
      << life.events;
  std::visit(Step{record, terms, life}, record.change);
  life.events = record.event.number;
  life.last_event = record.event.kind;
  if (record.event.kind == TaskEventKind::kBusy) {
    life.tries.Mutable().last_busy = record.event.number;
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
      task.submitted_at = admitted->submitted_at;
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
  task.state = life.state;
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

}  // namespace callboard::core
