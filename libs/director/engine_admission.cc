// Admission: decides whether a caller gets a place in the queue, waits for one, or is rejected.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/core/trace.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

using base::WithReason;
using base::WithRetryAfter;
using core::QueuePolicy;
using core::TaskEventKind;

absl::Status OverlapError(const std::string& key, core::QueueId live) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "a task with overlap key ", base::EscapeForError(key), " is live: ", ToString(live))),
      "OVERLAP", {{"key", key}, {"queue_id", ToString(live)}});
}

}  // namespace

// How a new task gets its place: the tasks that end to make room for it.
struct DirectorEngine::AdmissionPlan {
  // The pending task with the same overlap key that it replaces.
  Entry* coalesced = nullptr;
  // The task that the queue's policy drops.
  Entry* evicted = nullptr;
};

Decision DirectorEngine::Submit(AdmissionRequest&& request, Moment now) {
  Decision decision = Admit(request, /*arriving=*/true, now);
  Settle(now);
  return decision;
}

Decision DirectorEngine::Redrive(core::QueueId id, core::Submission&& submission,
                                 const std::string& who, Moment now) {
  const Entry* entry = tasks_.Find(id);
  if (entry == nullptr) return TaskNotFound(id);
  const core::TaskState& old = entry->task;
  if (!old.is_ended() || old.state == core::LifecycleState::kCompleted) {
    return WithReason(absl::FailedPreconditionError(
                          absl::StrCat(ToString(id), old.is_ended() ? " is completed" : " is live",
                                       "; only failed and cancelled tasks can be redriven")),
                      "NOT_REDRIVABLE", {{"queue_id", ToString(id)}});
  }
  if (const std::optional<core::QueueId> successor = tasks_.RedrivenAs(id)) {
    if (const Entry* found = tasks_.Find(*successor)) return DuplicateResult(*found);
  }
  // Submitted in the name of the original caller, so that a task has one successor regardless of
  // who redrives it.
  AdmissionRequest request =
      MakeSubmitRequest(old.terms->identity, std::move(submission), now.wall);
  request.redrive_of = id;
  Decision decision = Admit(request, /*arriving=*/true, now);
  if (const auto* submitted = std::get_if<SubmitResult>(&decision);
      submitted != nullptr && !submitted->deduplicated) {
    WriteEvent(*entry,
               {TaskEventKind::kRedriven, who,
                absl::StrCat("submitted again as ", ToString(submitted->queue_id))},
               now);
  }
  Settle(now);
  return decision;
}

Decision DirectorEngine::Admit(AdmissionRequest& request, bool arriving, Moment now) {
  if (request.wants_ticket()) return AdmitTicket(request, arriving, now);
  const core::Submission& submission = *request.submission;
  const QueuePolicy policy = PolicyOf(submission);
  if (policy == QueuePolicy::kDropOldest && policy != options_.queue.policy &&
      !options_.queue.allow_evict) {
    return WithReason(absl::FailedPreconditionError(
                          "drop-oldest is not allowed here (setting queue.allow_evict)"),
                      "EVICT_NOT_ALLOWED");
  }
  if (std::optional<Decision> same = FindDuplicate(request, now)) return *std::move(same);
  if (is_draining()) return DrainingError(now);
  AdmissionPlan plan;
  if (absl::Status status = CheckOverlap(request, plan); !status.ok()) return status;
  if (const std::optional<NoPlaceReason> why = FindPlace(request, plan, now)) {
    return WaitOrReject(request, *why, arriving, now);
  }
  if (submission.validate_only) {
    return SubmitResult{.admitted = {.spec = core::SpecPtr(request.submission, &submission.spec)}};
  }
  return AddTask(request, plan, now);
}

std::optional<Decision> DirectorEngine::FindDuplicate(const AdmissionRequest& request, Moment now) {
  const core::Submission& submission = *request.submission;
  const std::string& request_id = submission.spec.request_id;
  if (request_id.empty()) return std::nullopt;
  const std::optional<KnownRequest> known =
      tasks_.FindRequest(request.identity, request_id, now.wall);
  if (!known.has_value()) return std::nullopt;
  if (!known->fingerprint.Matches(submission.fingerprint, options_.queue.max_attempts)) {
    return WithReason(
        absl::AlreadyExistsError(absl::StrCat(
            "request_id ", base::EscapeForError(request_id), " was used for another task, ",
            ToString(known->queue_id), "; use a new request_id for new content")),
        "REQUEST_ID_REUSED", {{"queue_id", ToString(known->queue_id)}});
  }
  if (!submission.validate_only &&
      tickets_.IsValid(submission.ticket, request.identity, now.monotonic)) {
    tickets_.Release(submission.ticket);
  }
  const Entry* entry = tasks_.Find(known->queue_id);
  if (entry != nullptr) return DuplicateResult(*entry);
  return SubmitResult{.queue_id = known->queue_id, .state = known->state, .deduplicated = true};
}

SubmitResult DirectorEngine::DuplicateResult(const Entry& entry) const {
  return {.queue_id = entry.task.queue_id,
          .state = entry.task.state,
          .position = tasks_.Position(entry.task),
          .deduplicated = true};
}

absl::Status DirectorEngine::CheckOverlap(const AdmissionRequest& request,
                                          AdmissionPlan& plan) const {
  const std::optional<core::Overlap>& overlap = request.submission->spec.terms.overlap;
  if (!overlap.has_value() || overlap->policy == core::OverlapPolicy::kAllow) {
    return absl::OkStatus();
  }
  const TaskTable::OverlapGroup* others = tasks_.FindOverlapGroup(overlap->key);
  if (others == nullptr || others->live.size() < overlap->live_tasks_max()) return absl::OkStatus();
  if (overlap->policy == core::OverlapPolicy::kQueueOne) {
    // The pending task is replaced by the new one; running tasks continue. Without a pending task,
    // the new one waits (TaskTable::WaitsForOverlap()).
    for (auto other = others->live.rbegin(); other != others->live.rend(); ++other) {
      if (!other->second->task.is_pending()) continue;
      plan.coalesced = other->second;
      break;
    }
    return absl::OkStatus();
  }
  return OverlapError(overlap->key, others->live.begin()->second->task.queue_id);
}

std::optional<DirectorEngine::NoPlaceReason> DirectorEngine::FindPlace(
    const AdmissionRequest& request, AdmissionPlan& plan, Moment now) const {
  const core::Submission& submission = *request.submission;
  const QueuePolicy policy = PolicyOf(submission);
  const bool has_ticket = !submission.ticket.empty();
  const uint64_t freed = plan.coalesced != nullptr ? 1 : 0;
  if (is_bounded() && request.is_scheduler()) {
    const uint64_t freed_share =
        freed == 1 && plan.coalesced->task.terms->source == core::TaskSource::kScheduler ? 1 : 0;
    if (tasks_.scheduler_pending() - freed_share >= SchedulerPlaces()) {
      if (policy != QueuePolicy::kDropOldest || has_ticket) return NoPlaceReason::kShareUsedUp;
      plan.evicted = tasks_.OldestFresh(/*scheduler_only=*/true, /*except=*/plan.coalesced);
      if (plan.evicted == nullptr) return NoPlaceReason::kShareUsedUp;
      return std::nullopt;
    }
  }
  if (has_ticket) {
    const bool is_valid = tickets_.IsValid(submission.ticket, request.identity, now.monotonic);
    return is_valid ? std::nullopt : std::optional(NoPlaceReason::kTicketExpired);
  }
  if (!IsFull(freed)) return std::nullopt;
  if (policy != QueuePolicy::kDropOldest) return NoPlaceReason::kQueueFull;
  plan.evicted = tasks_.OldestFresh(/*scheduler_only=*/false, /*except=*/plan.coalesced);
  if (plan.evicted == nullptr) return NoPlaceReason::kQueueFull;
  return std::nullopt;
}

Decision DirectorEngine::WaitOrReject(AdmissionRequest& request, NoPlaceReason why, bool arriving,
                                      Moment now) {
  const core::Submission& submission = *request.submission;
  const QueuePolicy policy = PolicyOf(submission);
  const bool may_wait = policy == QueuePolicy::kBlock && arriving && submission.ticket.empty() &&
                        !submission.validate_only;
  return may_wait ? AddToWaiterQueue(request, now) : NoPlaceError(why, policy, now);
}

Decision DirectorEngine::AddToWaiterQueue(AdmissionRequest& request, Moment now) {
  if (const std::optional<WaiterId> id = waiter_queue_.Add(std::move(request))) return *id;
  const bool is_number = waiter_queue_.has_too_many();
  const std::string what =
      is_number ? absl::StrCat("too many callers wait for a place (", waiter_queue_.size(), " of ",
                               options_.queue.max_waiters, ", setting queue.max_waiters)")
                : absl::StrCat("the callers that wait for a place use too much memory (",
                               waiter_queue_.bytes(), " of ", options_.queue.max_waiting_bytes,
                               " bytes, setting queue.max_waiting_bytes)");
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError(what), "TOO_MANY_WAITERS",
                 {{"bound", is_number ? "queue.max_waiters" : "queue.max_waiting_bytes"},
                  {"waiting", absl::StrCat(waiter_queue_.size())},
                  {"waiting_bytes", absl::StrCat(waiter_queue_.bytes())}}),
      drain_rate_.RetryAfter(now.monotonic));
}

void DirectorEngine::EndDisplacedTasks(const AdmissionPlan& plan, const std::string& who,
                                       core::QueueId new_task, Moment now) {
  if (plan.coalesced != nullptr) {
    EndTask(
        *plan.coalesced,
        {.state = core::LifecycleState::kFailed, .reason = core::FailureReason::kCoalesced},
        {TaskEventKind::kFailed, who,
         absl::StrCat("replaced by a later task with the same overlap key: ", ToString(new_task)),
         core::Fault::kCaller},
        now);
  }
  if (plan.evicted != nullptr) {
    EndTask(
        *plan.evicted,
        {.state = core::LifecycleState::kFailed, .reason = core::FailureReason::kEvicted},
        {TaskEventKind::kEvicted, who,
         absl::StrCat("the queue was full; dropped as the oldest task, for ", ToString(new_task)),
         core::Fault::kCaller},
        now);
  }
}

SubmitResult DirectorEngine::AddTask(AdmissionRequest& request, const AdmissionPlan& plan,
                                     Moment now) {
  const core::Submission& submission = *request.submission;
  // Ids grow in the order of admission, which is also the cheapest order for the store.
  last_id_ = core::Ulid::After(last_id_, now.wall, {random_.Next(), random_.Next()});
  const core::QueueId id = core::QueueId(last_id_);
  EndDisplacedTasks(plan, request.identity, id, now);
  if (!submission.ticket.empty()) tickets_.Release(submission.ticket);

  core::TaskAdmitted admitted = {.spec = core::SpecPtr(request.submission, &submission.spec),
                                 .fingerprint = submission.fingerprint,
                                 .policy = submission.policy,
                                 .identity = request.identity,
                                 .submitted_at = request.arrived,
                                 .sequence = tasks_.next_sequence(),
                                 .redrive_of = request.redrive_of,
                                 .trace = submission.trace};
  if (admitted.trace == core::SpanContext()) {
    admitted.trace = core::SubmitSpan(id);
    // The repeated task is sampled if the original was.
    const Entry* old = request.redrive_of.has_value() ? tasks_.Find(*request.redrive_of) : nullptr;
    admitted.trace.sampled = old != nullptr && old->task.trace.sampled;
  }
  const core::SpanContext trace = admitted.trace;
  core::TaskRecord record = {.queue_id = id, .number = 1, .change = std::move(admitted)};
  // The first event is the submit itself (core::BuildEvents()).
  record.event = {.number = 2,
                  .kind = TaskEventKind::kAdmitted,
                  .at = now.wall,
                  .who = request.identity,
                  .place_after = tasks_.counts().pending + 1};
  outcome_.steps.push_back({.record = outcome_.records.size(),
                            .submitted_at = request.arrived,
                            .max_attempts = submission.spec.terms.max_attempts,
                            .trace = trace});
  const core::TaskRecord& written = std::get<core::TaskRecord>(Write(std::move(record)));
  Entry& entry = *tasks_.Find(written.queue_id);
  SubmitResult submitted = {.queue_id = written.queue_id,
                            .position = written.event.place_after,
                            .admitted = std::get<core::TaskAdmitted>(written.change),
                            .created_at = now.wall};
  ResetTimers(entry, now);
  OfferToMatcher(entry, now);
  AnswerDuplicates(entry.task, now);
  return submitted;
}

void DirectorEngine::AnswerDuplicates(const core::TaskState& task, Moment now) {
  if (task.request_id.empty()) return;
  for (const WaiterId waiter :
       waiter_queue_.FindByRequestId(task.terms->identity, task.request_id)) {
    const AdmissionRequest request = *waiter_queue_.Remove(waiter);
    outcome_.answers.push_back({waiter, *FindDuplicate(request, now)});
  }
}

Decision DirectorEngine::ReserveSlot(const std::string& identity, absl::Duration lifetime,
                                     Moment now) {
  AdmissionRequest request = {
      .identity = identity, .arrived = now.wall, .ticket_lifetime = lifetime};
  Decision decision = Admit(request, /*arriving=*/true, now);
  Settle(now);
  return decision;
}

Decision DirectorEngine::AdmitTicket(AdmissionRequest& request, bool arriving, Moment now) {
  if (is_draining()) return DrainingError(now);
  const uint32_t tickets_max =
      is_bounded() ? std::max(1u, options_.queue.max_size / 2) : core::kTicketsMax;
  const uint32_t total = tickets_.size() + waiter_queue_.ticket_request_count();
  const uint32_t held_by_caller =
      tickets_.CountHeldBy(request.identity) + waiter_queue_.TicketRequestCount(request.identity);
  if (total >= tickets_max || held_by_caller >= core::kTicketsPerCallerMax) {
    return WithRetryAfter(
        WithReason(absl::ResourceExhaustedError(absl::StrCat(
                       "too many tickets (", total, " of ", tickets_max, "; ", held_by_caller,
                       " of yours, at most ", core::kTicketsPerCallerMax, ")")),
                   "TOO_MANY_TICKETS", {{"tickets", absl::StrCat(total)}}),
        drain_rate_.RetryAfter(now.monotonic));
  }
  if (IsFull()) {
    return arriving ? AddToWaiterQueue(request, now) : FullError(QueuePolicy::kBlock, now);
  }
  const core::Ulid chance = core::Ulid::At(now.wall, {random_.Next(), random_.Next()});
  GrantedTicket granted = {absl::StrCat("ticket-", chance.ToString()),
                           now.wall + request.ticket_lifetime};
  tickets_.Add(granted.ticket, {request.identity, now.monotonic + request.ticket_lifetime});
  return granted;
}

bool DirectorEngine::AdmitNextWaiter(Moment now) {
  if (IsFull()) return false;
  const bool allow_scheduler = !is_bounded() || tasks_.scheduler_pending() < SchedulerPlaces();
  const std::optional<WaiterId> next = waiter_queue_.Next(allow_scheduler);
  if (!next.has_value()) return false;
  AdmissionRequest request = *waiter_queue_.Remove(*next);
  Decision decision = Admit(request, /*arriving=*/false, now);
  outcome_.answers.push_back({*next, std::move(decision)});
  return true;
}

void DirectorEngine::CancelWait(WaiterId waiter, Moment now) {
  waiter_queue_.Remove(waiter);
  Settle(now);
}

uint64_t DirectorEngine::SchedulerPlaces() const {
  // Makes 0.29 of 100 exactly 29 in spite of binary fractions.
  constexpr double kRounding = 1e-9;
  const double share =
      std::floor(options_.queue.scheduler_share * options_.queue.max_size + kRounding);
  return std::max<uint64_t>(1, static_cast<uint64_t>(share));
}

absl::Status DirectorEngine::NoPlaceError(NoPlaceReason why, QueuePolicy policy, Moment now) const {
  switch (why) {
    case NoPlaceReason::kQueueFull:
      return FullError(policy, now);
    case NoPlaceReason::kShareUsedUp:
      return ShareError(policy, now);
    case NoPlaceReason::kTicketExpired:
      break;
  }
  return WithReason(absl::FailedPreconditionError(
                        "the ticket has expired or was lost by a restart; reserve a new one"),
                    "TICKET_EXPIRED");
}

absl::Status DirectorEngine::FullError(QueuePolicy policy, Moment now) const {
  const uint64_t depth = tasks_.counts().pending + tickets_.size();
  return WithRetryAfter(
      WithReason(absl::ResourceExhaustedError(
                     absl::StrCat("queue is at capacity (", options_.queue.max_size, " tasks)")),
                 "QUEUE_FULL",
                 {{"policy", std::string(Name(policy))},
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
                 {{"policy", std::string(Name(policy))},
                  {"depth", absl::StrCat(tasks_.counts().pending + tickets_.size())},
                  {"max_size", absl::StrCat(options_.queue.max_size)},
                  {"share", absl::StrCat(SchedulerPlaces())},
                  {"share_used", absl::StrCat(tasks_.scheduler_pending())}}),
      drain_rate_.RetryAfter(now.monotonic));
}

absl::Status DirectorEngine::DrainingError(Moment now) const {
  return WithRetryAfter(
      WithReason(absl::UnavailableError("the queue is draining; retry later"), "QUEUE_DRAINING"),
      drain_rate_.RetryAfter(now.monotonic));
}

void DirectorEngine::RejectWaiters(const absl::Status& why) {
  while (const std::optional<WaiterId> next = waiter_queue_.Next(/*allow_scheduler=*/true)) {
    waiter_queue_.Remove(*next);
    outcome_.answers.push_back({*next, why});
  }
  tickets_.Clear();
}

}  // namespace callboard::director
