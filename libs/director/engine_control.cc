// Cancels, switches, and what time brings.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::TaskEventKind;
using core::TaskState;

constexpr absl::Duration kLeaseExtension = absl::Minutes(5);
// The wall clock may jump, so that what waits for it is looked at this often.
constexpr absl::Duration kWallPeriod = absl::Seconds(1);

}  // namespace

absl::Status AgentNotFound(const std::string& name) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("no agent named ", base::Echoed(name),
                                       " is known; `callboard agents` lists them")),
      "AGENT_NOT_FOUND", {{"name", name}});
}

absl::StatusOr<CancelAnswer> DirectorEngine::Cancel(core::QueueId id, const std::string& who,
                                                    const std::string& why, Moment now) {
  Entry* found = book_.Find(id);
  if (found == nullptr) return TaskNotFound(id);
  Entry& entry = *found;
  CancelAnswer answer = CancelAnswer::kRequested;
  if (entry.life.is_ended()) {
    answer = CancelAnswer::kAlreadyEnded;
  } else if (entry.life.is_pending()) {
    answer = CancelAnswer::kCancelled;
    EndCancelled(entry, who, why.empty() ? "cancelled while it waited" : why, {}, now);
  } else if (!entry.life.is_cancel_requested()) {
    WriteTask(entry,
              {TaskEventKind::kCancelRequested, who, why.empty() ? "somebody asked" : why,
               core::Fault::kCaller},
              core::CancelRequested(), now);
    SayTo(entry.life.tries->agent, core::CancelRun{entry.life.token()});
  }
  Settle(now);
  return answer;
}

void DirectorEngine::Switch(const core::QueueSwitched& wanted, Moment now) {
  // Denials are not noted during a pause.
  if (book_.switched().paused && !wanted.paused) matcher_.Relink();
  if (!(wanted == book_.switched())) Write(wanted);
  if (is_draining()) DismissWaiters(DrainingError(now));
  Settle(now);
}

void DirectorEngine::Pause(const std::string& who, const std::string& why, Moment now) {
  core::QueueSwitched wanted = book_.switched();
  if (!std::exchange(wanted.paused, true)) wanted.pause = core::SwitchCause{who, why, now.wall};
  Switch(wanted, now);
}

void DirectorEngine::Resume(Moment now) { Switch({}, now); }

void DirectorEngine::Drain(const std::string& who, const std::string& why, Moment now) {
  core::QueueSwitched wanted = book_.switched();
  if (!std::exchange(wanted.draining, true)) wanted.drain = core::SwitchCause{who, why, now.wall};
  Switch(wanted, now);
}

void DirectorEngine::BeginShutdown(Moment now) {
  shutting_down_ = true;
  DismissWaiters(DrainingError(now));
}

void DirectorEngine::GoAway(Moment now) {
  BeginShutdown(now);
  Write(core::LeasesExtended{.epoch = book_.epoch(), .extension = kLeaseExtension});
  // What was told to agents holds here too; nothing more is begun. An agent without a Session is
  // told nothing.
  lease_extension_ = kLeaseExtension;
  for (const auto& [sequence, entry] : book_.line()) {
    if (!entry->life.is_in_flight()) continue;
    if (!fleet_.Get(entry->life.tries->agent).is_connected()) continue;
    entry->clocks.lease_until += kLeaseExtension;
    Watch(*entry, now);
  }
  for (const auto& [name, agent] : fleet_.agents()) Say(agent, core::GoingAway{kLeaseExtension});
}

Kicked DirectorEngine::Kick(Moment now) {
  Kicked kicked;
  for (auto& [name, agent] : fleet_.agents()) {
    if (agent.suspect_until() > now.monotonic) ++kicked.suspicions;
    agent.unreachable.until = -absl::InfiniteDuration();
    agent.unanswered.until = -absl::InfiniteDuration();
  }
  for (const auto& [sequence, entry] : book_.line()) {
    if (entry->clocks.not_before <= now.monotonic) continue;
    ++kicked.backoffs;
    entry->clocks.not_before = -absl::InfiniteDuration();
    Offer(*entry, now);
  }
  Settle(now);
  return kicked;
}

absl::Status DirectorEngine::DrainAgent(const std::string& name, const std::string& why,
                                        Moment now) {
  Agent* agent = fleet_.Find(name);
  if (agent == nullptr) return AgentNotFound(name);
  MarkAgent(*agent, /*draining=*/true, agent->cordoned, why.empty() ? "somebody asked" : why);
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
  while (const auto id = in_flight_agenda_.TakeDue(now.monotonic)) {
    OnInFlightDue(*book_.Find(*id), now);
  }
  tickets_.Expire(now.monotonic);
  fleet_.ForgetSilent(now);
  Settle(now);
}

absl::Duration DirectorEngine::UntilNextTimer(Moment now) const {
  absl::Duration next =
      std::min({in_flight_agenda_.Next().value_or(absl::InfiniteDuration()),
                pending_agenda_.Next().value_or(absl::InfiniteDuration()), tickets_.NextEnd()});
  for (const auto& [name, agent] : fleet_.agents()) {
    // One that is over counts until somebody has looked who gets its agent.
    if (agent.suspect_until() > settled_at_) next = std::min(next, agent.suspect_until());
    if (agent.is_forgettable()) next = std::min(next, agent.heard_at + agent.memory());
  }
  absl::Time wall = wall_agenda_.Next().value_or(absl::InfiniteFuture());
  if (!book_.ended().empty()) {
    wall = std::min(wall, book_.ended().begin()->first.first + options_.retention.age);
  }
  if (!book_.remembered().empty()) wall = std::min(wall, book_.remembered().begin()->first);
  absl::Duration wait = next - now.monotonic;
  if (wall < absl::InfiniteFuture()) {
    wait = std::min({wait, wall - now.wall, kWallPeriod});
  }
  return std::max(wait, absl::ZeroDuration());
}

void DirectorEngine::OnPendingDue(Entry& entry, Moment now) {
  if (entry.life.deadline_at <= now.wall) {
    End(entry, {.state = TaskState::kFailed, .reason = FailureReason::kExpired},
        {TaskEventKind::kExpired, "director", "it did not start before its deadline",
         core::Fault::kCaller},
        now);
    return;
  }
  Offer(entry, now);
}

void DirectorEngine::OnInFlightDue(Entry& entry, Moment now) {
  const core::Life& life = entry.life;
  const bool cancelled = life.is_cancel_requested();
  if (entry.clocks.lease_until <= now.monotonic) {
    if (life.state == TaskState::kWorking) {
      Lose(entry, absl::StrCat("nothing was heard of it from ", life.tries->agent, " in time"),
           now);
    } else {
      OnStartUnanswered(entry, now);
    }
    return;
  }
  if (entry.clocks.guard_at <= now.monotonic) {
    SayTo(life.tries->agent, core::CancelRun{life.token()});
    // Nobody knows when its process ends: the slot is taken until the agent says otherwise.
    Lane& lane = fleet_.Get(life.tries->agent).lanes[life.terms->lane];
    lane.reported = std::max(lane.reported, lane.held);
    const std::string why = "its agent let it run beyond its timeout";
    if (cancelled) {
      EndCancelled(entry, "director", why, {}, now);
    } else {
      End(entry,
          {.state = TaskState::kFailed,
           .reason = FailureReason::kTimedOut,
           .counts = true,
           .error = why},
          {TaskEventKind::kTimeout, "director", why, core::Fault::kAgent}, now);
    }
    return;
  }
  entry.clocks.repeat_at = life.state == TaskState::kDispatching || cancelled
                               ? now.monotonic + options_.queue.dispatch_timeout
                               : absl::InfiniteDuration();
  if (cancelled) {
    SayTo(life.tries->agent, core::CancelRun{life.token()});
  } else if (life.state == TaskState::kDispatching) {
    SayStart(entry);
  }
  Watch(entry, now);
}

}  // namespace callboard::director
