#include "libs/director/engine.h"

#include <algorithm>
#include <utility>

#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/ports/event_store.h"

namespace callboard::director {
namespace {

using core::LifecycleState;
using core::TaskEventKind;

// The director's guard ends a run this much later than its agent should have ended it.
constexpr absl::Duration kGuardMargin = absl::Seconds(60);
// Maximum of tasks, and of request ids, that one command forgets, so that no turn takes long.
constexpr int kForgottenMax = 100;

// The first epoch of a new store is the unix time in seconds. Agents may still know an epoch of the
// store that it replaces, and they reject lower ones. Directors restart less than once per second,
// so the number stays ahead.
uint64_t NextEpoch(uint64_t last, absl::Time now) {
  if (last > 0) return last + 1;
  return static_cast<uint64_t>(std::max(int64_t{1}, absl::ToUnixSeconds(now)));
}

}  // namespace

DirectorEngine::DirectorEngine(const EngineOptions& options, ports::Random& random)
    : options_(options),
      random_(random),
      fleet_(options.lease),
      matcher_(fleet_),
      waiter_queue_(options.queue.max_waiters, options.queue.max_waiting_bytes) {}

absl::Status DirectorEngine::Recover(const core::Record& record) {
  const std::string why = tasks_.TransitionError(record);
  if (!why.empty()) return base::WithReason(absl::DataLossError(why), ports::kStoreRefused);
  tasks_.Apply(record);
  return absl::OkStatus();
}

void DirectorEngine::Begin(Moment now) {
  Write(core::EpochBegan{NextEpoch(tasks_.epoch(), now.wall)});
  for (const auto& [name, mark] : tasks_.marked_agents()) {
    Agent& agent = fleet_.Get(name);
    agent.draining = mark.draining;
    agent.cordoned = !mark.cordoned_instance.empty();
    agent.instance_id = mark.cordoned_instance;
    agent.mark_why = mark.why;
  }
  for (const auto& [sequence, entry] : tasks_.live_tasks()) {
    if (entry->task.is_in_flight()) {
      fleet_.Hold(entry->task.history->agent, entry->task.queue_id, entry->task.terms->lane);
      Agent& agent = fleet_.Get(entry->task.history->agent);
      agent.last_seen_at = now.monotonic;
      if (agent.instance_id.empty()) agent.instance_id = entry->task.history->instance_id;
    }
    ResetTimers(*entry, now);
    if (entry->task.is_in_flight()) {
      entry->timers.lease_until = LeaseEnd(now.monotonic);
      // The agent may have received a GoingAway that extended its lease.
      if (entry->task.history->director_epoch <= tasks_.lease_extension().epoch) {
        entry->timers.lease_until += tasks_.lease_extension().extension;
      }
    }
    OfferToMatcher(*entry, now);
  }
  Settle(now);
}

Outcome DirectorEngine::TakeOutcome() {
  Outcome taken = std::exchange(outcome_, {});
  // The next outcome is likely about as large.
  outcome_.records.reserve(taken.records.size());
  outcome_.steps.reserve(taken.steps.size());
  return taken;
}

core::Record& DirectorEngine::Write(core::Record&& record) {
  core::Record& written = outcome_.records.emplace_back(std::move(record));
  tasks_.Apply(written);
  return written;
}

core::TaskEvent DirectorEngine::MakeEvent(const core::TaskState& task, const EventDetails& details,
                                          Moment now) const {
  return {.number = task.last_event_number + 1,
          .kind = details.kind,
          .at = now.wall,
          .who = details.who,
          .why = details.why,
          .fault = details.fault,
          .place_before = tasks_.Position(task),
          .agent = details.agent};
}

void DirectorEngine::WriteTask(Entry& entry, const EventDetails& details, core::TaskChange change,
                               Moment now) {
  const core::TaskState& task = entry.task;
  core::TaskRecord record = {.queue_id = task.queue_id,
                             .number = task.last_record + 1,
                             .event = MakeEvent(task, details, now)};
  if (const auto* dispatched = std::get_if<core::TaskDispatched>(&change)) {
    record.event.dispatch = dispatched->dispatch;
  } else if (task.is_in_flight()) {
    record.event.dispatch = task.dispatch;
    record.event.agent = task.history->agent;
  }
  // See HandleBusy().
  if (details.kind == TaskEventKind::kBusy && task.history->last_busy > 0 &&
      task.history->busy_rejections + 1 >= core::kKeepsPlaceFromBusyAnswer) {
    record.replaces = task.last_record - task.history->last_busy + 1;
    record.number = task.history->last_busy;
  }
  record.change = std::move(change);

  outcome_.steps.push_back({.record = outcome_.records.size(),
                            .from = task.state,
                            .since = task.since(),
                            .submitted_at = task.submitted_at,
                            .attempts = task.attempts,
                            .max_attempts = task.terms->max_attempts,
                            .trace = task.trace,
                            .dispatch = task.dispatch,
                            .dispatch_trace = task.dispatch == core::DispatchNumber()
                                                  ? core::SpanContext()
                                                  : task.dispatch_trace(),
                            .dispatched_at = task.history->dispatched_at});
  const bool was_pending = task.is_pending();
  const bool was_in_flight = task.is_in_flight();
  const uint64_t overlap_before = OverlapInFlight(task);
  const std::string held_by = task.history->agent;
  if (was_pending) matcher_.Remove(entry);
  core::Record& written = Write(std::move(record));
  std::get<core::TaskRecord>(written).event.place_after = tasks_.Position(task);
  if (was_in_flight && !task.is_in_flight()) {
    fleet_.Release(held_by, task.queue_id, task.terms->lane);
  }
  if (!was_in_flight && task.is_in_flight()) {
    fleet_.Hold(task.history->agent, task.queue_id, task.terms->lane);
  }
  if (was_pending && !task.is_pending()) drain_rate_.Record(now.monotonic);

  ResetTimers(entry, now);
  OfferToMatcher(entry, now);
  const std::string& session_id = task.session_id;
  if (task.is_ended() && !session_id.empty()) {
    if (Entry* next = tasks_.FirstTaskOfSession(session_id)) OfferToMatcher(*next, now);
  }
  OfferOverlapping(task, overlap_before, now);
}

uint64_t DirectorEngine::OverlapInFlight(const core::TaskState& task) const {
  if (!task.terms->overlap.has_value()) return 0;
  const TaskTable::OverlapGroup* others = tasks_.FindOverlapGroup(task.terms->overlap->key);
  return others == nullptr ? 0 : others->in_flight;
}

void DirectorEngine::OfferOverlapping(const core::TaskState& task, uint64_t before, Moment now) {
  const uint64_t after = OverlapInFlight(task);
  if (before == after) return;
  const TaskTable::OverlapGroup* others = tasks_.FindOverlapGroup(task.terms->overlap->key);
  if (others == nullptr) return;
  // The number changed by one. That matters only for tasks whose limit is the larger of the two
  // numbers.
  const uint64_t most = std::max(before, after);
  for (auto one = others->queue_one.lower_bound({most, 0});
       one != others->queue_one.end() && one->first.first == most; ++one) {
    if (after == most) matcher_.Remove(*one->second);
    OfferToMatcher(*one->second, now);
  }
}

void DirectorEngine::WriteEvent(const Entry& entry, const EventDetails& details, Moment now,
                                core::DispatchNumber dispatch) {
  const core::TaskState& task = entry.task;
  core::TaskRecord record = {.queue_id = task.queue_id,
                             .number = task.last_record + 1,
                             .event = MakeEvent(task, details, now),
                             .change = core::EventOnly()};
  record.event.place_after = record.event.place_before;
  record.event.dispatch = dispatch;
  // Keep only the last of several denials in a row, because agents may come and go endlessly.
  if (details.kind == TaskEventKind::kDenied && task.last_event_kind == TaskEventKind::kDenied) {
    record.replaces = 1;
    record.number = task.last_record;
  }
  if (details.kind == TaskEventKind::kOrphanResult) {
    outcome_.steps.push_back(
        {.record = outcome_.records.size(), .from = task.state, .trace = task.trace});
  }
  Write(std::move(record));
}

void DirectorEngine::ResetTimers(Entry& entry, Moment now) {
  const core::TaskState& task = entry.task;
  Entry::Timers& timers = entry.timers;
  switch (task.state) {
    case LifecycleState::kPending:
      timers = {};
      if (task.history->not_before.has_value()) {
        // The wall clock may have jumped since the backoff was set; do not wait longer than the
        // backoff.
        timers.not_before =
            now.monotonic + std::min(task.history->backoff, *task.history->not_before - now.wall);
      }
      break;
    case LifecycleState::kDispatching:
      timers.repeat_at = now.monotonic + options_.queue.dispatch_timeout;
      break;
    case LifecycleState::kWorking:
      if (timers.guard_at == absl::InfiniteDuration()) {
        timers.guard_at =
            now.monotonic + task.terms->timeout + options_.lease.kill_grace + kGuardMargin;
      }
      timers.repeat_at = task.is_cancel_requested()
                             ? now.monotonic + options_.queue.dispatch_timeout
                             : absl::InfiniteDuration();
      break;
    case LifecycleState::kCompleted:
    case LifecycleState::kFailed:
    case LifecycleState::kCancelled:
      timers = {};
      break;
  }
}

void DirectorEngine::ArmTimers(Entry& entry, Moment now) {
  const core::TaskState& task = entry.task;
  std::optional<absl::Duration> due;
  std::optional<absl::Time> wall_due;
  bool is_delayed = false;
  if (task.is_pending()) {
    if (entry.timers.not_before > now.monotonic) due = entry.timers.not_before;
    absl::Time next = task.deadline_at;
    is_delayed = due.has_value() || task.earliest_start_at > now.wall;
    if (task.earliest_start_at > now.wall) next = std::min(next, task.earliest_start_at);
    if (next < absl::InfiniteFuture()) wall_due = next;
  } else if (task.is_in_flight()) {
    due = std::min({entry.timers.lease_until, entry.timers.repeat_at, entry.timers.guard_at});
  }
  if (std::exchange(entry.is_delayed, is_delayed)) --delayed_;
  if (is_delayed) ++delayed_;
  pending_timers_.Set(task.queue_id, task.is_pending() ? due : std::nullopt);
  wall_timers_.Set(task.queue_id, wall_due);
  in_flight_timers_.Set(task.queue_id, task.is_in_flight() ? due : std::nullopt);
}

bool DirectorEngine::IsReadyNow(const Entry& entry, Moment now) const {
  const core::TaskState& task = entry.task;
  if (!task.is_pending() || entry.timers.not_before > now.monotonic) return false;
  if (task.earliest_start_at > now.wall || tasks_.WaitsForOverlap(task)) return false;
  return task.session_id.empty() || tasks_.FirstTaskOfSession(task.session_id) == &entry;
}

void DirectorEngine::OfferToMatcher(Entry& entry, Moment now) {
  ArmTimers(entry, now);
  if (matcher_.IsReady(entry) || !IsReadyNow(entry, now)) return;
  matcher_.Add(entry, MakeDemand(entry, tasks_));
}

void DirectorEngine::Settle(Moment now) {
  settled_at_ = now.monotonic;
  while (WakeNext(now) || DispatchNext(now) || AdmitNextWaiter(now) || ForgetEndedTasks(now)) {
  }
  RecordDenials(now);
  ForgetExpiredRequests(now);
}

// Wakes the next pending task whose time has come. It becomes ready or, after its deadline, fails.
// This happens before any dispatch, so that the dispatch order is right.
bool DirectorEngine::WakeNext(Moment now) {
  std::optional<core::QueueId> id = pending_timers_.TakeDue(now.monotonic);
  if (!id.has_value()) id = wall_timers_.TakeDue(now.wall);
  if (!id.has_value()) return false;
  OnPendingDue(*tasks_.Find(*id), now);
  return true;
}

bool DirectorEngine::DispatchNext(Moment now) {
  if (!can_dispatch()) return false;
  const std::optional<Matcher::Match> match = matcher_.Next(now);
  if (!match.has_value()) return false;
  if (IsReadyNow(*match->entry, now)) {
    Dispatch(*match->entry, *match->agent, now);
  } else {
    // The wall clock was set back, to before the task's earliest start.
    matcher_.Remove(*match->entry);
    ArmTimers(*match->entry, now);
  }
  return true;
}

void DirectorEngine::RecordDenials(Moment now) {
  const std::vector<Group*> changed = matcher_.TakeChangedGroups();
  if (tasks_.switches().paused) return;
  for (Group* group : changed) {
    const std::string why = fleet_.WhyNoAgent(group->served_by, now);
    if (why == group->denied) continue;
    group->denied = why;
    WriteEvent(*group->tasks.begin()->second, {TaskEventKind::kDenied, "director", why}, now);
  }
}

bool DirectorEngine::ForgetEndedTasks(Moment now) {
  bool released = false;
  uint64_t dispatches = 0;
  for (int forgotten = 0; forgotten < kForgottenMax && !tasks_.ended().empty(); ++forgotten) {
    const core::TaskState& task = tasks_.ended().begin()->second->task;
    const absl::Time finished_at = task.finished_at;
    if (tasks_.ended().size() <= options_.retention.count &&
        now.wall < finished_at + options_.retention.age) {
      break;
    }
    const core::QueueId id = task.queue_id;
    const std::string session_id = task.session_id;
    dispatches += task.dispatch.value();
    const std::optional<KnownRequest> request =
        task.request_id.empty()
            ? std::nullopt
            : tasks_.FindRequest(task.terms->identity, task.request_id, now.wall);
    if (request.has_value() && request->queue_id == id) {
      Write(core::RequestRemembered{.identity = task.terms->identity,
                                    .request_id = task.request_id,
                                    .fingerprint = task.fingerprint,
                                    .queue_id = id,
                                    .state = task.state,
                                    .forget_at = finished_at + core::kRequestMemory});
    }
    Write(core::TaskForgotten{id, task.last_record});
    // Forgetting a task may also forget which agent owns its session.
    Entry* next = session_id.empty() ? nullptr : tasks_.FirstTaskOfSession(session_id);
    if (next != nullptr && matcher_.IsReady(*next)) {
      matcher_.Remove(*next);
      OfferToMatcher(*next, now);
      released = true;
    }
  }
  if (dispatches > 0) {
    Write(core::DispatchesForgotten{tasks_.dispatches_forgotten() + dispatches});
  }
  return released;
}

void DirectorEngine::ForgetExpiredRequests(Moment now) {
  for (int forgotten = 0; forgotten < kForgottenMax && !tasks_.remembered().empty(); ++forgotten) {
    const auto& [forget_at, key] = *tasks_.remembered().begin();
    if (tasks_.remembered().size() <= core::kRememberedRequestsMax && now.wall < forget_at) return;
    Write(core::RequestForgotten{.identity = key.first, .request_id = key.second});
  }
}

}  // namespace callboard::director
