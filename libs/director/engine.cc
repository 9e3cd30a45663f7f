#include "libs/director/engine.h"

#include <algorithm>
#include <utility>

#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/ports/event_store.h"

namespace callboard::director {
namespace {

using core::TaskEventKind;
using core::TaskState;

// The director's own guard over a run begins where its agent's must have acted.
constexpr absl::Duration kGuardMargin = absl::Seconds(60);
// Ended tasks and ids forgotten by one command, so that no turn takes long.
constexpr int kForgottenMax = 100;

// A new store begins at unix seconds: agents may still serve an epoch of the store that it replaces
// and refuse lower ones, and directors do not restart every second.
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
      line_(options.queue.max_waiters, options.queue.max_waiting_bytes) {}

absl::Status DirectorEngine::Recover(const core::Record& record) {
  const std::string why = book_.WhyImpossible(record);
  if (!why.empty()) return base::WithReason(absl::DataLossError(why), ports::kStoreRefused);
  book_.Apply(record);
  return absl::OkStatus();
}

void DirectorEngine::Begin(Moment now) {
  Write(core::EpochBegan{NextEpoch(book_.epoch(), now.wall)});
  for (const auto& [name, mark] : book_.marked_agents()) {
    Agent& agent = fleet_.Get(name);
    agent.draining = mark.draining;
    agent.cordoned = !mark.cordoned_instance.empty();
    agent.instance_id = mark.cordoned_instance;
    agent.mark_why = mark.why;
  }
  for (const auto& [sequence, entry] : book_.line()) {
    if (entry->life.is_in_flight()) {
      fleet_.Hold(entry->life.tries->agent, entry->life.queue_id, entry->life.terms->lane);
      Agent& agent = fleet_.Get(entry->life.tries->agent);
      agent.heard_at = now.monotonic;
      if (agent.instance_id.empty()) agent.instance_id = entry->life.tries->instance_id;
    }
    StartClocks(*entry, now);
    if (entry->life.is_in_flight()) {
      entry->clocks.lease_until = LeaseFrom(now.monotonic);
      // Its agent may have been told that its director goes away, and hold on for longer.
      if (entry->life.tries->director_epoch <= book_.extended().epoch) {
        entry->clocks.lease_until += book_.extended().extension;
      }
    }
    Offer(*entry, now);
  }
  Settle(now);
}

Outcome DirectorEngine::TakeOutcome() {
  Outcome taken = std::exchange(outcome_, {});
  // The next one is about as large.
  outcome_.records.reserve(taken.records.size());
  outcome_.steps.reserve(taken.steps.size());
  return taken;
}

core::Record& DirectorEngine::Write(core::Record&& record) {
  core::Record& written = outcome_.records.emplace_back(std::move(record));
  book_.Apply(written);
  return written;
}

core::TaskEvent DirectorEngine::EventOf(const core::Life& life, const Remark& remark,
                                        Moment now) const {
  return {.number = life.event_number + 1,
          .kind = remark.kind,
          .at = now.wall,
          .who = remark.who,
          .why = remark.why,
          .fault = remark.fault,
          .place_before = book_.Position(life),
          .agent = remark.agent};
}

void DirectorEngine::WriteTask(Entry& entry, const Remark& remark, core::TaskChange change,
                               Moment now) {
  const core::Life& life = entry.life;
  core::TaskRecord record = {
      .queue_id = life.queue_id, .number = life.events + 1, .event = EventOf(life, remark, now)};
  if (const auto* dispatched = std::get_if<core::Dispatched>(&change)) {
    record.event.dispatch = dispatched->dispatch;
  } else if (life.is_in_flight()) {
    record.event.dispatch = life.dispatch;
    record.event.agent = life.tries->agent;
  }
  if (remark.kind == TaskEventKind::kBusy && life.tries->last_busy > 0 &&
      life.tries->busy_rejections + 1 >= core::kKeepsPlaceFromBounce) {
    record.replaces = life.events - life.tries->last_busy + 1;
    record.number = life.tries->last_busy;
  }
  record.change = std::move(change);

  outcome_.steps.push_back({.record = outcome_.records.size(),
                            .from = life.state,
                            .since = life.since(),
                            .submitted_at = life.submitted_at,
                            .attempts = life.attempts,
                            .max_attempts = life.terms->max_attempts,
                            .trace = life.trace,
                            .dispatch = life.dispatch,
                            .dispatch_trace = life.dispatch == core::DispatchNumber()
                                                  ? core::SpanContext()
                                                  : life.dispatch_trace(),
                            .dispatched_at = life.tries->dispatched_at});
  const bool was_pending = life.is_pending();
  const bool was_in_flight = life.is_in_flight();
  const uint64_t overlap_before = InFlightBeside(life);
  const std::string held_by = life.tries->agent;
  if (was_pending) matcher_.Remove(entry);
  core::Record& written = Write(std::move(record));
  std::get<core::TaskRecord>(written).event.place_after = book_.Position(life);
  if (was_in_flight && !life.is_in_flight()) {
    fleet_.Release(held_by, life.queue_id, life.terms->lane);
  }
  if (!was_in_flight && life.is_in_flight()) {
    fleet_.Hold(life.tries->agent, life.queue_id, life.terms->lane);
  }
  if (was_pending && !life.is_pending()) drain_rate_.Count(now.monotonic);

  StartClocks(entry, now);
  Offer(entry, now);
  const std::string& session_id = life.session_id;
  if (life.is_ended() && !session_id.empty()) {
    if (Entry* next = book_.FirstOfSession(session_id)) Offer(*next, now);
  }
  OfferOverlapping(life, overlap_before, now);
}

uint64_t DirectorEngine::InFlightBeside(const core::Life& life) const {
  if (!life.terms->overlap.has_value()) return 0;
  const Book::Overlapping* others = book_.FindOverlapping(life.terms->overlap->key);
  return others == nullptr ? 0 : others->in_flight;
}

void DirectorEngine::OfferOverlapping(const core::Life& life, uint64_t before, Moment now) {
  const uint64_t after = InFlightBeside(life);
  if (before == after) return;
  const Book::Overlapping* others = book_.FindOverlapping(life.terms->overlap->key);
  if (others == nullptr) return;
  // One more or one less: it matters to those that may have so many beside them and no more.
  const uint64_t most = std::max(before, after);
  for (auto one = others->one_of.lower_bound({most, 0});
       one != others->one_of.end() && one->first.first == most; ++one) {
    if (after == most) matcher_.Remove(*one->second);
    Offer(*one->second, now);
  }
}

void DirectorEngine::Note(const Entry& entry, const Remark& remark, Moment now,
                          core::DispatchNumber dispatch) {
  const core::Life& life = entry.life;
  core::TaskRecord record = {.queue_id = life.queue_id,
                             .number = life.events + 1,
                             .event = EventOf(life, remark, now),
                             .change = core::Noted()};
  record.event.place_after = record.event.place_before;
  record.event.dispatch = dispatch;
  // Only the latest of several denials in a row is kept: agents may come and go for ever.
  if (remark.kind == TaskEventKind::kDenied && life.last_event == TaskEventKind::kDenied) {
    record.replaces = 1;
    record.number = life.events;
  }
  if (remark.kind == TaskEventKind::kOrphanResult) {
    outcome_.steps.push_back(
        {.record = outcome_.records.size(), .from = life.state, .trace = life.trace});
  }
  Write(std::move(record));
}

void DirectorEngine::StartClocks(Entry& entry, Moment now) {
  const core::Life& life = entry.life;
  Entry::Clocks& clocks = entry.clocks;
  switch (life.state) {
    case TaskState::kPending:
      clocks = {};
      if (life.tries->not_before.has_value()) {
        // The wall clock may have jumped since the backoff was decided: never longer than it was.
        clocks.not_before =
            now.monotonic + std::min(life.tries->backoff, *life.tries->not_before - now.wall);
      }
      break;
    case TaskState::kDispatching:
      clocks.repeat_at = now.monotonic + options_.queue.dispatch_timeout;
      break;
    case TaskState::kWorking:
      if (clocks.guard_at == absl::InfiniteDuration()) {
        clocks.guard_at =
            now.monotonic + life.terms->timeout + options_.lease.kill_grace + kGuardMargin;
      }
      clocks.repeat_at = life.is_cancel_requested()
                             ? now.monotonic + options_.queue.dispatch_timeout
                             : absl::InfiniteDuration();
      break;
    case TaskState::kCompleted:
    case TaskState::kFailed:
    case TaskState::kCancelled:
      clocks = {};
      break;
  }
}

void DirectorEngine::Watch(Entry& entry, Moment now) {
  const core::Life& life = entry.life;
  std::optional<absl::Duration> due;
  std::optional<absl::Time> wall_due;
  bool is_delayed = false;
  if (life.is_pending()) {
    if (entry.clocks.not_before > now.monotonic) due = entry.clocks.not_before;
    absl::Time next = life.deadline_at;
    is_delayed = due.has_value() || life.earliest_start_at > now.wall;
    if (life.earliest_start_at > now.wall) next = std::min(next, life.earliest_start_at);
    if (next < absl::InfiniteFuture()) wall_due = next;
  } else if (life.is_in_flight()) {
    due = std::min({entry.clocks.lease_until, entry.clocks.repeat_at, entry.clocks.guard_at});
  }
  if (std::exchange(entry.is_delayed, is_delayed)) --delayed_;
  if (is_delayed) ++delayed_;
  pending_agenda_.Set(life.queue_id, life.is_pending() ? due : std::nullopt);
  wall_agenda_.Set(life.queue_id, wall_due);
  in_flight_agenda_.Set(life.queue_id, life.is_in_flight() ? due : std::nullopt);
}

bool DirectorEngine::IsReadyNow(const Entry& entry, Moment now) const {
  const core::Life& life = entry.life;
  if (!life.is_pending() || entry.clocks.not_before > now.monotonic) return false;
  if (life.earliest_start_at > now.wall || book_.WaitsForOverlap(life)) return false;
  return life.session_id.empty() || book_.FirstOfSession(life.session_id) == &entry;
}

Demand DirectorEngine::DemandOf(const Entry& entry) const {
  const core::Life& life = entry.life;
  Demand demand = {.lane = life.terms->lane,
                   .labels = life.terms->required_labels,
                   .features = core::FeaturesNeededBy(*life.terms)};
  if (!life.session_id.empty()) demand.session_agent = book_.AgentOfSession(life.session_id);
  return demand;
}

void DirectorEngine::Offer(Entry& entry, Moment now) {
  Watch(entry, now);
  if (matcher_.IsReady(entry) || !IsReadyNow(entry, now)) return;
  matcher_.Add(entry, DemandOf(entry));
}

bool DirectorEngine::IsReady(core::QueueId id) const {
  const Entry* entry = book_.Find(id);
  return entry != nullptr && dispatches() && matcher_.IsServed(*entry);
}

void DirectorEngine::Settle(Moment now) {
  settled_at_ = now.monotonic;
  while (WakeNext(now) || DispatchNext(now) || AdmitNextWaiter(now) || Retain(now)) {
  }
  NoteDenials(now);
  RetainRequests(now);
}

// What has become ready by now stands in line, and what is too late is over, before anything is
// dispatched.
bool DirectorEngine::WakeNext(Moment now) {
  std::optional<core::QueueId> id = pending_agenda_.TakeDue(now.monotonic);
  if (!id.has_value()) id = wall_agenda_.TakeDue(now.wall);
  if (!id.has_value()) return false;
  OnPendingDue(*book_.Find(*id), now);
  return true;
}

bool DirectorEngine::DispatchNext(Moment now) {
  if (!dispatches()) return false;
  const std::optional<Matcher::Match> match = matcher_.Next(now);
  if (!match.has_value()) return false;
  if (IsReadyNow(*match->entry, now)) {
    Dispatch(*match->entry, *match->agent, now);
  } else {
    // The wall clock was set back behind its earliest start.
    matcher_.Remove(*match->entry);
    Watch(*match->entry, now);
  }
  return true;
}

void DirectorEngine::NoteDenials(Moment now) {
  const std::vector<Group*> changed = matcher_.TakeChanged();
  if (book_.switched().paused) return;
  for (Group* group : changed) {
    const std::string why = fleet_.WhyNobody(group->served_by, now);
    if (why == group->denied) continue;
    group->denied = why;
    Note(*group->tasks.begin()->second, {TaskEventKind::kDenied, "director", why}, now);
  }
}

bool DirectorEngine::Retain(Moment now) {
  bool released = false;
  uint64_t dispatches = 0;
  for (int forgotten = 0; forgotten < kForgottenMax && !book_.ended().empty(); ++forgotten) {
    const core::Life& life = book_.ended().begin()->second->life;
    const absl::Time finished_at = life.finished_at;
    if (book_.ended().size() <= options_.retention.count &&
        now.wall < finished_at + options_.retention.age) {
      break;
    }
    const core::QueueId id = life.queue_id;
    const std::string session_id = life.session_id;
    dispatches += life.dispatch.value();
    const std::optional<KnownRequest> request =
        life.request_id.empty()
            ? std::nullopt
            : book_.FindRequest(life.terms->identity, life.request_id, now.wall);
    if (request.has_value() && request->queue_id == id) {
      Write(core::RequestRemembered{.identity = life.terms->identity,
                                    .request_id = life.request_id,
                                    .fingerprint = life.fingerprint,
                                    .queue_id = id,
                                    .state = life.state,
                                    .forget_at = finished_at + core::kRequestMemory});
    }
    Write(core::TaskForgotten{id, life.events});
    // With it may go the memory of which agent the session belongs to.
    Entry* next = session_id.empty() ? nullptr : book_.FirstOfSession(session_id);
    if (next != nullptr && matcher_.IsReady(*next)) {
      matcher_.Remove(*next);
      Offer(*next, now);
      released = true;
    }
  }
  if (dispatches > 0) {
    Write(core::DispatchesForgotten{book_.dispatches_forgotten() + dispatches});
  }
  return released;
}

void DirectorEngine::RetainRequests(Moment now) {
  for (int forgotten = 0; forgotten < kForgottenMax && !book_.remembered().empty(); ++forgotten) {
    const auto& [forget_at, key] = *book_.remembered().begin();
    if (book_.remembered().size() <= core::kRememberedRequestsMax && now.wall < forget_at) return;
    Write(core::RequestForgotten{.identity = key.first, .request_id = key.second});
  }
}

}  // namespace callboard::director
