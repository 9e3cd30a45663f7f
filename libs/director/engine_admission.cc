// The door: who gets a place in the queue, who waits for one, who is sent away.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/core/supported.h"
#include "libs/core/task_spans.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

using base::WithReason;
using base::WithRetryAfter;
using core::QueuePolicy;
using core::TaskEventKind;

absl::string_view PolicyName(QueuePolicy policy) {
  switch (policy) {
    case QueuePolicy::kReject:
      return "reject";
    case QueuePolicy::kBlock:
      return "block";
    case QueuePolicy::kDropOldest:
      return "drop-oldest";
    case QueuePolicy::kDropLatest:
      return "drop-latest";
  }
  return "";
}

absl::Status OverlapError(const std::string& key, core::QueueId live) {
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "a task of overlap key ", base::Echoed(key), " is live: ", ToString(live))),
                    "OVERLAP", {{"key", key}, {"queue_id", ToString(live)}});
}

}  // namespace

// How a newcomer gets in: what has to make way for it.
struct DirectorEngine::Place {
  // The pending task of its overlap key that it takes the place of.
  Entry* coalesced = nullptr;
  // The task that the queue's policy gives up for it.
  Entry* evicted = nullptr;
};

Decision DirectorEngine::Submit(Caller&& caller, Moment now) {
  Decision decision = Admit(caller, /*arriving=*/true, now);
  Settle(now);
  return decision;
}

Decision DirectorEngine::Redrive(core::QueueId id, const core::TaskSpec& spec,
                                 const std::string& who, Moment now) {
  const Entry* entry = book_.Find(id);
  if (entry == nullptr) return TaskNotFound(id);
  const core::Life& old = entry->life;
  if (!old.is_ended() || old.state == core::TaskState::kCompleted) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(ToString(id), old.is_ended() ? " is completed" : " is live",
                                       "; only failed and cancelled tasks can be redriven")),
                      "NOT_REDRIVABLE", {{"queue_id", ToString(id)}});
  }
  if (const std::optional<core::QueueId> successor = book_.RedrivenAs(id)) {
    if (const Entry* found = book_.Find(*successor)) return AsBefore(*found);
  }
  core::Submission submission = {.spec = spec, .policy = QueuePolicy::kReject, .ticket = {}};
  submission.spec.request_id = absl::StrCat("redrive/", ToString(id));
  submission.spec.overlap.reset();
  submission.spec.deadline_at.reset();
  submission.spec.earliest_start_at.reset();
  // In its submitter's name, whoever asks: an old task has one successor.
  Caller caller = Submitter(old.terms->identity, std::move(submission), now.wall);
  caller.redrive_of = id;
  Decision decision = Admit(caller, /*arriving=*/true, now);
  if (const auto* submitted = std::get_if<Submitted>(&decision);
      submitted != nullptr && !submitted->deduplicated) {
    Note(*entry,
         {TaskEventKind::kRedriven, who,
          absl::StrCat("submitted again as ", ToString(submitted->queue_id))},
         now);
  }
  Settle(now);
  return decision;
}

Decision DirectorEngine::Admit(Caller& caller, bool arriving, Moment now) {
  if (caller.wants_ticket()) return AdmitTicket(caller, arriving, now);
  const core::Submission& submission = *caller.submission;
  if (absl::Status status = core::CheckSupported(submission.spec); !status.ok()) return status;
  const QueuePolicy policy = PolicyOf(submission);
  if (policy == QueuePolicy::kDropOldest && policy != options_.queue.policy &&
      !options_.queue.allow_evict) {
    return WithReason(absl::FailedPreconditionError(
                          "drop-oldest is not allowed here (setting queue.allow_evict)"),
                      "EVICT_NOT_ALLOWED");
  }
  if (std::optional<Decision> same = FindSame(caller, now)) return *std::move(same);
  if (is_draining()) return DrainingError(now);
  Place place;
  if (absl::Status status = CheckOverlap(caller, place); !status.ok()) return status;
  if (const std::optional<NoPlace> why = FindPlace(caller, place, now)) {
    return WaitOrRefuse(caller, *why, arriving, now);
  }
  if (submission.validate_only) {
    return Submitted{.admitted = {.spec = core::SpecPtr(caller.submission, &submission.spec)}};
  }
  return AddTask(caller, place, now);
}

std::optional<Decision> DirectorEngine::FindSame(const Caller& caller, Moment now) {
  const core::Submission& submission = *caller.submission;
  const std::string& request_id = submission.spec.request_id;
  if (request_id.empty()) return std::nullopt;
  const std::optional<KnownRequest> known =
      book_.FindRequest(caller.identity, request_id, now.wall);
  if (!known.has_value()) return std::nullopt;
  if (!IsSameRequest(known->fingerprint, caller)) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat(
                          "request_id ", base::Echoed(request_id), " stands for another task, ",
                          ToString(known->queue_id), "; use a new one for new content")),
                      "REQUEST_ID_REUSED", {{"queue_id", ToString(known->queue_id)}});
  }
  if (!submission.validate_only &&
      tickets_.IsValid(submission.ticket, caller.identity, now.monotonic)) {
    tickets_.Release(submission.ticket);
  }
  const Entry* entry = book_.Find(known->queue_id);
  if (entry != nullptr) return AsBefore(*entry);
  return Submitted{.queue_id = known->queue_id, .state = known->state, .deduplicated = true};
}

bool DirectorEngine::IsSameRequest(const core::Fingerprint& known, const Caller& caller) const {
  const core::TaskSpec& spec = caller.submission->spec;
  if (core::IsSame(known, caller.fingerprint, spec)) return true;
  // A value that the setting supplies is the same as that value sent.
  core::TaskSpec same = spec;
  if (spec.max_attempts == 0) {
    same.max_attempts = options_.queue.max_attempts;
  } else if (spec.max_attempts == options_.queue.max_attempts) {
    same.max_attempts = 0;
  } else {
    return false;
  }
  return core::IsSame(known, core::FingerprintOf(same), same);
}

Submitted DirectorEngine::AsBefore(const Entry& entry) const {
  return {.queue_id = entry.life.queue_id,
          .state = entry.life.state,
          .position = book_.Position(entry.life),
          .deduplicated = true};
}

absl::Status DirectorEngine::CheckOverlap(const Caller& caller, Place& place) const {
  const std::optional<core::Overlap>& overlap = caller.submission->spec.overlap;
  if (!overlap.has_value() || overlap->policy == core::OverlapPolicy::kAllow) {
    return absl::OkStatus();
  }
  const Book::Overlapping* others = book_.FindOverlapping(overlap->key);
  if (others == nullptr || others->live.size() < overlap->most_at_once()) return absl::OkStatus();
  if (overlap->policy == core::OverlapPolicy::kQueueOne) {
    // The one that waits makes way for the newcomer; what runs is let run. With nothing waiting the
    // newcomer is the one that waits (Book::WaitsForOverlap()).
    for (auto other = others->live.rbegin(); other != others->live.rend(); ++other) {
      if (!other->second->life.is_pending()) continue;
      place.coalesced = other->second;
      break;
    }
    return absl::OkStatus();
  }
  return OverlapError(overlap->key, others->live.begin()->second->life.queue_id);
}

std::optional<DirectorEngine::NoPlace> DirectorEngine::FindPlace(const Caller& caller, Place& place,
                                                                 Moment now) const {
  const core::Submission& submission = *caller.submission;
  const QueuePolicy policy = PolicyOf(submission);
  const bool has_ticket = !submission.ticket.empty();
  const uint64_t freed = place.coalesced != nullptr ? 1 : 0;
  if (is_bounded() && caller.is_scheduler()) {
    const uint64_t freed_share =
        freed == 1 && place.coalesced->life.terms->source == core::TaskSource::kScheduler ? 1 : 0;
    if (book_.pending_of_scheduler() - freed_share >= SchedulerPlaces()) {
      if (policy != QueuePolicy::kDropOldest || has_ticket) return NoPlace::kShareUsedUp;
      place.evicted = book_.OldestFresh(/*of_scheduler=*/true, /*except=*/place.coalesced);
      if (place.evicted == nullptr) return NoPlace::kShareUsedUp;
      return std::nullopt;
    }
  }
  if (has_ticket) {
    const bool is_valid = tickets_.IsValid(submission.ticket, caller.identity, now.monotonic);
    return is_valid ? std::nullopt : std::optional(NoPlace::kTicketExpired);
  }
  if (!IsFull(freed)) return std::nullopt;
  if (policy != QueuePolicy::kDropOldest) return NoPlace::kQueueFull;
  place.evicted = book_.OldestFresh(/*of_scheduler=*/false, /*except=*/place.coalesced);
  if (place.evicted == nullptr) return NoPlace::kQueueFull;
  return std::nullopt;
}

Decision DirectorEngine::WaitOrRefuse(Caller& caller, NoPlace why, bool arriving, Moment now) {
  const core::Submission& submission = *caller.submission;
  const QueuePolicy policy = PolicyOf(submission);
  const bool may_wait = policy == QueuePolicy::kBlock && arriving && submission.ticket.empty() &&
                        !submission.validate_only;
  return may_wait ? WaitInLine(caller, now) : ErrorOf(why, policy, now);
}

Decision DirectorEngine::WaitInLine(Caller& caller, Moment now) {
  if (const std::optional<WaiterId> id = line_.Add(std::move(caller))) return *id;
  const bool is_number = line_.has_too_many();
  const std::string what =
      is_number ? absl::StrCat("too many callers wait for a place (", line_.size(), " of ",
                               options_.queue.max_waiters, ", setting queue.max_waiters)")
                : absl::StrCat("the callers that wait for a place hold too much (", line_.bytes(),
                               " of ", options_.queue.max_waiting_bytes,
                               " bytes, setting queue.max_waiting_bytes)");
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError(what), "TOO_MANY_WAITERS",
                 {{"bound", is_number ? "queue.max_waiters" : "queue.max_waiting_bytes"},
                  {"waiting", absl::StrCat(line_.size())},
                  {"waiting_bytes", absl::StrCat(line_.bytes())}}),
      drain_rate_.RetryAfter(now.monotonic));
}

void DirectorEngine::MakeWay(const Place& place, const std::string& who, core::QueueId newcomer,
                             Moment now) {
  if (place.coalesced != nullptr) {
    End(*place.coalesced,
        {.state = core::TaskState::kFailed, .reason = core::FailureReason::kCoalesced},
        {TaskEventKind::kFailed, who,
         absl::StrCat("a later task of its overlap key took its place: ", ToString(newcomer)),
         core::Fault::kCaller},
        now);
  }
  if (place.evicted != nullptr) {
    End(*place.evicted,
        {.state = core::TaskState::kFailed, .reason = core::FailureReason::kEvicted},
        {TaskEventKind::kEvicted, who,
         absl::StrCat("the queue was full and its policy drops the oldest, for ",
                      ToString(newcomer)),
         core::Fault::kCaller},
        now);
  }
}

Submitted DirectorEngine::AddTask(Caller& caller, const Place& place, Moment now) {
  core::Submission& submission = *caller.submission;
  // In the order of admission, which is also the one that the store likes best.
  last_id_ = core::Ulid::After(last_id_, now.wall, {random_.Next(), random_.Next()});
  const core::QueueId id = core::QueueId(last_id_);
  MakeWay(place, caller.identity, id, now);
  if (!submission.ticket.empty()) tickets_.Release(submission.ticket);

  core::TaskSpec& spec = submission.spec;
  if (spec.lane.empty()) spec.lane = std::string(core::kDefaultLane);
  if (spec.timeout == absl::ZeroDuration()) spec.timeout = core::kDefaultTimeout;
  if (spec.max_attempts == 0) spec.max_attempts = options_.queue.max_attempts;
  if (!spec.source.has_value()) spec.source = core::TaskSource::kApi;
  core::Admitted admitted = {.spec = core::SpecPtr(caller.submission, &spec),
                             .fingerprint = caller.fingerprint,
                             .policy = submission.policy,
                             .identity = caller.identity,
                             .submitted_at = caller.arrived,
                             .sequence = book_.next_sequence(),
                             .redrive_of = caller.redrive_of,
                             .trace = submission.trace};
  if (admitted.trace == core::SpanContext()) {
    admitted.trace = core::SubmitSpanOf(id);
    // One that is tried again is looked at if the first try was.
    const Entry* old = caller.redrive_of.has_value() ? book_.Find(*caller.redrive_of) : nullptr;
    admitted.trace.sampled = old != nullptr && old->life.trace.sampled;
  }
  const core::SpanContext trace = admitted.trace;
  core::TaskRecord record = {.queue_id = id, .number = 1, .change = std::move(admitted)};
  // The first event is that it was submitted (core::EventsFrom()).
  record.event = {.number = 2,
                  .kind = TaskEventKind::kAdmitted,
                  .at = now.wall,
                  .who = caller.identity,
                  .place_after = book_.counts().pending + 1};
  outcome_.steps.push_back({.record = outcome_.records.size(),
                            .submitted_at = caller.arrived,
                            .max_attempts = spec.max_attempts,
                            .trace = trace});
  const core::TaskRecord& written = std::get<core::TaskRecord>(Write(std::move(record)));
  Entry& entry = *book_.Find(written.queue_id);
  Submitted submitted = {.queue_id = written.queue_id,
                         .position = written.event.place_after,
                         .admitted = std::get<core::Admitted>(written.change),
                         .created_at = now.wall};
  StartClocks(entry, now);
  Offer(entry, now);
  AnswerSame(entry.life, now);
  return submitted;
}

void DirectorEngine::AnswerSame(const core::Life& life, Moment now) {
  if (life.request_id.empty()) return;
  for (const WaiterId waiter : line_.WithRequest(life.terms->identity, life.request_id)) {
    const Caller caller = *line_.Remove(waiter);
    outcome_.answers.push_back({waiter, *FindSame(caller, now)});
  }
}

Decision DirectorEngine::ReserveSlot(const std::string& identity, absl::Duration lifetime,
                                     Moment now) {
  Caller caller = {.identity = identity, .arrived = now.wall, .ticket_lifetime = lifetime};
  Decision decision = Admit(caller, /*arriving=*/true, now);
  Settle(now);
  return decision;
}

Decision DirectorEngine::AdmitTicket(Caller& caller, bool arriving, Moment now) {
  if (is_draining()) return DrainingError(now);
  const uint32_t tickets_max =
      is_bounded() ? std::max(1u, options_.queue.max_size / 2) : core::kTicketsMax;
  const uint32_t in_all = tickets_.size() + line_.wanting_tickets();
  const uint32_t of_caller =
      tickets_.HeldBy(caller.identity) + line_.WantingTickets(caller.identity);
  if (in_all >= tickets_max || of_caller >= core::kTicketsPerCallerMax) {
    return WithRetryAfter(
        WithReason(absl::ResourceExhaustedError(absl::StrCat(
                       "too many tickets (", in_all, " of ", tickets_max, "; ", of_caller,
                       " of yours, at most ", core::kTicketsPerCallerMax, ")")),
                   "TOO_MANY_TICKETS", {{"tickets", absl::StrCat(in_all)}}),
        drain_rate_.RetryAfter(now.monotonic));
  }
  if (IsFull()) {
    return arriving ? WaitInLine(caller, now) : FullError(QueuePolicy::kBlock, now);
  }
  const core::Ulid chance = core::Ulid::At(now.wall, {random_.Next(), random_.Next()});
  TicketGranted granted = {absl::StrCat("ticket-", chance.ToString()),
                           now.wall + caller.ticket_lifetime};
  tickets_.Add(granted.ticket, {caller.identity, now.monotonic + caller.ticket_lifetime});
  return granted;
}

bool DirectorEngine::AdmitNextWaiter(Moment now) {
  if (IsFull()) return false;
  const bool scheduler_may = !is_bounded() || book_.pending_of_scheduler() < SchedulerPlaces();
  const std::optional<WaiterId> next = line_.Next(scheduler_may);
  if (!next.has_value()) return false;
  Caller caller = *line_.Remove(*next);
  Decision decision = Admit(caller, /*arriving=*/false, now);
  outcome_.answers.push_back({*next, std::move(decision)});
  return true;
}

void DirectorEngine::Leave(WaiterId waiter, Moment now) {
  line_.Remove(waiter);
  Settle(now);
}

uint64_t DirectorEngine::SchedulerPlaces() const {
  // 0.29 of 100 is 29, whatever its binary digits say.
  constexpr double kRounding = 1e-9;
  const double share =
      std::floor(options_.queue.scheduler_share * options_.queue.max_size + kRounding);
  return std::max<uint64_t>(1, static_cast<uint64_t>(share));
}

absl::Status DirectorEngine::ErrorOf(NoPlace why, QueuePolicy policy, Moment now) const {
  switch (why) {
    case NoPlace::kQueueFull:
      return FullError(policy, now);
    case NoPlace::kShareUsedUp:
      return ShareError(policy, now);
    case NoPlace::kTicketExpired:
      break;
  }
  return WithReason(absl::FailedPreconditionError(
                        "the ticket has expired or was lost by a restart; reserve a new one"),
                    "TICKET_EXPIRED");
}

absl::Status DirectorEngine::FullError(QueuePolicy policy, Moment now) const {
  const uint64_t depth = book_.counts().pending + tickets_.size();
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError(
                     absl::StrCat("queue is at capacity (", options_.queue.max_size, " tasks)")),
                 "QUEUE_FULL",
                 {{"policy", std::string(PolicyName(policy))},
                  {"depth", absl::StrCat(depth)},
                  {"max_size", absl::StrCat(options_.queue.max_size)}}),
      drain_rate_.RetryAfter(now.monotonic));
}

absl::Status DirectorEngine::ShareError(QueuePolicy policy, Moment now) const {
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError(absl::StrCat("scheduler share is used up (",
                                                           SchedulerPlaces(), " of ",
                                                           options_.queue.max_size, " tasks)")),
                 "QUEUE_FULL",
                 {{"policy", std::string(PolicyName(policy))},
                  {"depth", absl::StrCat(book_.counts().pending + tickets_.size())},
                  {"max_size", absl::StrCat(options_.queue.max_size)},
                  {"share", absl::StrCat(SchedulerPlaces())},
                  {"share_used", absl::StrCat(book_.pending_of_scheduler())}}),
      drain_rate_.RetryAfter(now.monotonic));
}

absl::Status DirectorEngine::DrainingError(Moment now) const {
  return WithRetryAfter(
      WithReason(absl::UnavailableError("the queue is draining; retry later"), "QUEUE_DRAINING"),
      drain_rate_.RetryAfter(now.monotonic));
}

void DirectorEngine::DismissWaiters(const absl::Status& why) {
  while (const std::optional<WaiterId> next = line_.Next(/*scheduler_may=*/true)) {
    line_.Remove(*next);
    outcome_.answers.push_back({*next, why});
  }
  tickets_.Clear();
}

}  // namespace callboard::director
