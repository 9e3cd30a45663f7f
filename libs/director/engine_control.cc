// Cancels, switches, kicks and timers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::LifecycleState;
using core::TaskEventKind;

constexpr absl::Duration kLeaseExtension = absl::Minutes(5);
// Timers on the wall clock are checked this often, because the wall clock may jump.
constexpr absl::Duration kWallPeriod = absl::Seconds(1);

}  // namespace

absl::StatusOr<CancelResult> DirectorEngine::Cancel(core::QueueId id, const std::string& who,
                                                    const std::string& why, Moment now) {
  Entry* found = tasks_.Find(id);
  if (found == nullptr) return TaskNotFound(id);
  Entry& entry = *found;
  CancelResult answer = CancelResult::kRequested;
  if (entry.task.is_ended()) {
    answer = CancelResult::kAlreadyEnded;
  } else if (entry.task.is_pending()) {
    answer = CancelResult::kCancelled;
    EndCancelled(entry, who, why.empty() ? "cancelled while pending" : why, {}, now);
  } else if (!entry.task.is_cancel_requested()) {
    WriteTask(entry,
              {TaskEventKind::kCancelRequested, who, why.empty() ? "no reason was given" : why,
               core::Fault::kCaller},
              core::CancelRequested(), now);
    SendTo(entry.task.history->agent, core::CancelRun{entry.task.token()});
  }
  Settle(now);
  return answer;
}

void DirectorEngine::SetSwitches(const core::QueueSwitched& switches, Moment now) {
  // Denials are not recorded during a pause; relinking marks all groups as changed, so that they
  // are recorded now.
  if (tasks_.switches().paused && !switches.paused) matcher_.Relink();
  if (!(switches == tasks_.switches())) Write(switches);
  if (is_draining()) RejectWaiters(DrainingError(now));
  Settle(now);
}

void DirectorEngine::Pause(const std::string& who, const std::string& why, Moment now) {
  core::QueueSwitched switches = tasks_.switches();
  if (!std::exchange(switches.paused, true)) switches.pause = core::SwitchCause{who, why, now.wall};
  SetSwitches(switches, now);
}

void DirectorEngine::Resume(Moment now) { SetSwitches({}, now); }

void DirectorEngine::Drain(const std::string& who, const std::string& why, Moment now) {
  core::QueueSwitched switches = tasks_.switches();
  if (!std::exchange(switches.draining, true))
    switches.drain = core::SwitchCause{who, why, now.wall};
  SetSwitches(switches, now);
}

void DirectorEngine::BeginShutdown(Moment now) {
  shutting_down_ = true;
  RejectWaiters(DrainingError(now));
}

void DirectorEngine::GoAway(Moment now) {
  BeginShutdown(now);
  Write(core::LeasesExtended{.epoch = tasks_.epoch(), .extension = kLeaseExtension});
  // The announced extension applies here too, and nothing is dispatched any more. An agent without
  // a Session does not receive the announcement, so its leases stay as they are.
  lease_extension_ = kLeaseExtension;
  for (const auto& [sequence, entry] : tasks_.live_tasks()) {
    if (!entry->task.is_in_flight()) continue;
    if (!fleet_.Get(entry->task.history->agent).is_connected()) continue;
    entry->timers.lease_until += kLeaseExtension;
    ArmTimers(*entry, now);
  }
  for (const auto& [name, agent] : fleet_.agents()) Send(agent, core::GoingAway{kLeaseExtension});
}

KickResult DirectorEngine::Kick(Moment now) {
  KickResult result;
  for (auto& [name, agent] : fleet_.agents()) {
    if (agent.suspect_until() > now.monotonic) ++result.suspicions;
    agent.unreachable.until = -absl::InfiniteDuration();
    agent.unanswered.until = -absl::InfiniteDuration();
  }
  for (const auto& [sequence, entry] : tasks_.live_tasks()) {
    if (entry->timers.not_before <= now.monotonic) continue;
    ++result.backoffs;
    entry->timers.not_before = -absl::InfiniteDuration();
    OfferToMatcher(*entry, now);
  }
  Settle(now);
  return result;
}

absl::Status DirectorEngine::DrainAgent(const std::string& name, const std::string& why,
                                        Moment now) {
  Agent* agent = fleet_.Find(name);
  if (agent == nullptr) return AgentNotFound(name);
  MarkAgent(*agent, /*draining=*/true, agent->cordoned, why.empty() ? "no reason was given" : why);
  Settle(now);
  return absl::OkStatus();
}

absl::Status DirectorEngine::UndrainAgent(const std::string& name, Moment now) {
  Agent* agent = fleet_.Find(name);
  if (agent == nullptr) return AgentNotFound(name);
  MarkAgent(*agent, /*draining=*/false, /*cordoned=*/false, "");
  Settle(now);
  return absl::OkStatus();
}

void DirectorEngine::FireTimers(Moment now) {
  while (const auto id = in_flight_timers_.TakeDue(now.monotonic)) {
    OnInFlightDue(*tasks_.Find(*id), now);
  }
  tickets_.Expire(now.monotonic);
  fleet_.ForgetSilent(now);
  Settle(now);
}

absl::Duration DirectorEngine::TimeUntilNextTimer(Moment now) const {
  absl::Duration next =
      std::min({in_flight_timers_.Next().value_or(absl::InfiniteDuration()),
                pending_timers_.Next().value_or(absl::InfiniteDuration()), tickets_.NextExpiry()});
  for (const auto& [name, agent] : fleet_.agents()) {
    // An expired suspicion counts until Settle() has run after it.
    if (agent.suspect_until() > settled_at_) next = std::min(next, agent.suspect_until());
    if (agent.is_forgettable()) next = std::min(next, agent.last_seen_at + agent.retention());
  }
  absl::Time wall = wall_timers_.Next().value_or(absl::InfiniteFuture());
  if (!tasks_.ended().empty()) {
    wall = std::min(wall, tasks_.ended().begin()->first.first + options_.retention.age);
  }
  if (!tasks_.remembered().empty()) wall = std::min(wall, tasks_.remembered().begin()->first);
  absl::Duration wait = next - now.monotonic;
  if (wall < absl::InfiniteFuture()) {
    wait = std::min({wait, wall - now.wall, kWallPeriod});
  }
  return std::max(wait, absl::ZeroDuration());
}

void DirectorEngine::OnPendingDue(Entry& entry, Moment now) {
  if (entry.task.deadline_at <= now.wall) {
    EndTask(entry, {.state = LifecycleState::kFailed, .reason = FailureReason::kExpired},
            {TaskEventKind::kExpired, "director", "the task did not start before its deadline",
             core::Fault::kCaller},
            now);
    return;
  }
  OfferToMatcher(entry, now);
}

void DirectorEngine::OnInFlightDue(Entry& entry, Moment now) {
  const core::TaskState& task = entry.task;
  const bool cancelled = task.is_cancel_requested();
  if (entry.timers.lease_until <= now.monotonic) {
    if (task.state == LifecycleState::kWorking) {
      HandleLostRun(
          entry, absl::StrCat(task.history->agent, " sent no heartbeat for the task in time"), now);
    } else {
      OnStartUnanswered(entry, now);
    }
    return;
  }
  if (entry.timers.guard_at <= now.monotonic) {
    SendTo(task.history->agent, core::CancelRun{task.token()});
    // It is unknown when the process really ends, so its slot counts as used until the agent
    // reports otherwise.
    AgentLane& lane = fleet_.Get(task.history->agent).lanes[task.terms->lane];
    lane.reported = std::max(lane.reported, lane.held);
    const std::string why = "the agent did not stop the run at its timeout";
    if (cancelled) {
      EndCancelled(entry, "director", why, {}, now);
    } else {
      EndTask(entry,
              {.state = LifecycleState::kFailed,
               .reason = FailureReason::kTimedOut,
               .counts_as_attempt = true,
               .error = why},
              {TaskEventKind::kTimeout, "director", why, core::Fault::kAgent}, now);
    }
    return;
  }
  entry.timers.repeat_at = task.state == LifecycleState::kDispatching || cancelled
                               ? now.monotonic + options_.queue.dispatch_timeout
                               : absl::InfiniteDuration();
  if (cancelled) {
    SendTo(task.history->agent, core::CancelRun{task.token()});
  } else if (task.state == LifecycleState::kDispatching) {
    SendStart(entry);
  }
  ArmTimers(entry, now);
}

}  // namespace callboard::director
