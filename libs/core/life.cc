#include "libs/core/life.h"

#include <variant>

#include "libs/base/check.h"

namespace callboard::core {
namespace {

struct Step {
  const TaskRecord& record;
  Life& life;

  void operator()(const Admitted& change) const {
    CHECK_EQ(life.events, 0u);
    Task& task = life.task;
    task.queue_id = record.queue_id;
    task.spec = *change.spec;
    task.policy = change.policy;
    task.state = TaskState::kPending;
    task.submitted_at = change.submitted_at;
    task.created_at = record.event.at;
    task.redrive_of = change.redrive_of;
    life.identity = change.identity;
    life.fingerprint = change.fingerprint;
    life.sequence = change.sequence;
    life.admitted = change.sequence;
  }

  void operator()(const Dispatched& change) const {
    CHECK(life.is_pending());
    // Never reused, in any epoch.
    CHECK(change.dispatch > life.task.dispatch);
    life.task.state = TaskState::kDispatching;
    life.task.not_before.reset();
    life.backoff = absl::ZeroDuration();
    SetDispatch(change, record.event.at);
  }

  void operator()(const Accepted&) const {
    CHECK(life.task.state == TaskState::kDispatching);
    life.task.state = TaskState::kWorking;
    life.ran_on = life.agent;
  }

  void operator()(const Bounced& change) const {
    CHECK(life.task.state == TaskState::kDispatching);
    CHECK(!life.task.cancel_requested_at.has_value());
    CHECK(change.dispatched.dispatch >= life.task.dispatch);
    SetDispatch(change.dispatched, change.dispatched_at);
    life.task.state = TaskState::kPending;
    life.task.busy_rejections = change.busy_rejections;
    life.sequence = change.sequence;
  }

  void operator()(const Returned& change) const {
    CHECK(life.is_in_flight());
    CHECK(!life.task.cancel_requested_at.has_value());
    EndDispatch(change.counts, change.blame, change.error);
    CHECK_LT(life.task.attempts, life.task.spec.max_attempts);
    life.task.state = TaskState::kPending;
    life.sequence = change.sequence;
    life.backoff = change.backoff;
    if (change.backoff > absl::ZeroDuration()) {
      life.task.not_before = record.event.at + change.backoff;
    }
    if (change.reported) {
      life.reported.insert(life.task.dispatch);
      life.ran_on = life.agent;
    }
  }

  void operator()(const CancelRequested&) const {
    CHECK(life.is_in_flight());
    CHECK(!life.task.cancel_requested_at.has_value());
    life.task.cancel_requested_at = record.event.at;
  }

  void operator()(const Ended& change) const {
    CHECK(!life.is_ended());
    CHECK(!life.task.cancel_requested_at.has_value() || change.state == TaskState::kCancelled);
    EndDispatch(change.counts, change.blame, change.error);
    CHECK_LE(life.task.attempts, life.task.spec.max_attempts);
    life.task.state = change.state;
    CHECK(life.is_ended());
    CHECK_EQ(change.reason.has_value(), change.state == TaskState::kFailed);
    life.task.reason = change.reason;
    life.task.finished_at = record.event.at;
    life.task.not_before.reset();
    if (change.run.has_value()) {
      life.reported.insert(life.task.dispatch);
      if (change.run->end != RunResult::End::kCancelled) life.ran_on = life.agent;
      life.task.exit_code = change.run->exit_code;
      life.task.signal = change.run->signal;
      life.task.result = change.run->result;
      life.task.result_truncated = change.run->result_truncated;
    }
  }

  void operator()(const Noted&) const {
    CHECK_GT(life.events, 0u);
    if (record.event.kind == TaskEventKind::kOrphanResult) life.orphaned = record.event.dispatch;
  }

 private:
  void SetDispatch(const Dispatched& dispatched, absl::Time at) const {
    life.task.dispatch = dispatched.dispatch;
    life.task.dispatched_at = at;
    life.task.agent_url = dispatched.agent_url;
    life.agent = record.event.agent;
    life.instance_id = dispatched.instance_id;
    life.director_epoch = dispatched.director_epoch;
  }

  void EndDispatch(bool counts, Blame blame, const std::string& error) const {
    if (counts) ++life.task.attempts;
    if (!error.empty()) life.task.last_error = error;
    if (blame != Blame::kNobody) life.failed_on.insert(life.agent);
    if (blame == Blame::kTookAgentDown) life.took_down.insert(life.agent);
  }
};

}  // namespace

void Apply(const TaskRecord& record, Life& life) {
  // The next one; or, live, one that takes the place of the last ones. At recovery those are gone.
  CHECK(record.event.number == life.events + 1 ||
        record.event.number + record.replaces == life.events + 1)
      << ToString(record.queue_id) << ": record " << record.event.number << " after "
      << life.events;
  std::visit(Step{record, life}, record.change);
  life.events = record.event.number;
  life.last_event = record.event.kind;
  if (record.event.kind == TaskEventKind::kBusy) {
    life.last_busy = record.event.number;
  } else if (record.event.kind != TaskEventKind::kDispatching &&
             record.event.kind != TaskEventKind::kDenied) {
    life.last_busy = 0;
  }
}

}  // namespace callboard::core
