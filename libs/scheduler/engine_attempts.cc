// Attempts: occurrences from their intent to their row.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/scheduler/engine.h"

namespace callboard::scheduler {
namespace {

using core::CatchUp;
using core::FiringOutcome;

// Returns until when an occurrence may be submitted: until the next occurrence after `decided` that
// fires, but no longer than catch_up allows. With catch_up `all` there is no deadline; instead,
// ExpireAttempts() limits the number of waiting attempts.
absl::Time WindowEnd(const core::Job& job, const core::Occurrence& occurrence, absl::Time decided) {
  if (job.catch_up.kind == CatchUp::Kind::kAll) return absl::InfiniteFuture();
  absl::Time end = occurrence.at + kCatchUpAgeMax;
  if (const auto next = core::NextFiringOccurrence(job, decided)) end = std::min(end, next->at);
  if (job.catch_up.kind == CatchUp::Kind::kNone) {
    end = std::min(end, occurrence.at + core::OccurrenceJitter(job, occurrence) + kOnTimeLimit);
  }
  return end;
}

// Detail of a row whose request id belongs to a task with other content.
constexpr absl::string_view kIdReusedDetail =
    "another scheduler, or an earlier version of the file, submitted it with other content";

}  // namespace

// ---- Beginning ----------------------------------------------------------------------------------

void SchedulerEngine::OpenAttempt(Entry& entry, const core::Occurrence& occurrence,
                                  ports::Moment now) {
  const bool moved = occurrence.kind == core::Occurrence::Kind::kGapMoved;
  entry.attempts[occurrence.at] = {.moved = moved,
                                   .window_end = WindowEnd(*entry.job, occurrence, occurrence.at),
                                   .full_until = now.wall + entry.job->queue_full_wait,
                                   .not_before = now.monotonic};
  jobs_with_attempts_[entry.state.job] = &entry;
  outcome_.changes.emplace_back(
      Intent{.job = entry.state.job, .nominal = occurrence.at, .moved = moved});
}

void SchedulerEngine::RestoreAttempts(Entry& entry, ports::Moment now) {
  const CatchUp::Kind catch_up = entry.job->catch_up.kind;
  std::vector<absl::Time> nominals;
  for (auto& [nominal, attempt] : entry.attempts) {
    const core::Occurrence occurrence = {.at = nominal, .wall = {}};
    attempt.window_end = WindowEnd(*entry.job, occurrence, nominal);
    attempt.full_until = now.wall + entry.job->queue_full_wait;
    attempt.not_before = now.monotonic;
    if (entry.state.pause.has_value()) {
      // The pause began during the attempt, so an occurrence that was not accepted does not run.
      SetTentativeOutcome(attempt, {FiringOutcome::kPaused});
    } else if (attempt.direct) {
      SetTentativeOutcome(attempt, {FiringOutcome::kSkippedDirectorDown});
    } else if (now.wall - nominal > kCatchUpAgeMax) {
      // The director may have had the task and forgotten it.
      SetTentativeOutcome(
          attempt, {FiringOutcome::kMissedWindow, "",
                    "it was being submitted when the scheduler stopped, too long ago to find "
                    "out whether it was accepted"});
    } else if (attempt.window_end <= now.wall) {
      SetTentativeOutcome(attempt,
                          {catch_up == CatchUp::Kind::kLatest ? FiringOutcome::kCoalesced
                                                              : FiringOutcome::kMissedWindow,
                           "", "its time had passed when the scheduler restarted"});
    }
    nominals.push_back(nominal);
  }
  for (const absl::Time nominal : nominals) ConcludeIfSettled(entry, nominal, now);
}

void SchedulerEngine::UpdateDeadlines(Entry& entry, const core::Job& earlier) {
  // No attempt waits past the nominal time of the next one, unless catch_up is `all`.
  absl::Time next = absl::InfiniteFuture();
  for (auto it = entry.attempts.rbegin(); it != entry.attempts.rend(); ++it) {
    auto& [nominal, attempt] = *it;
    // Occurrences of the new schedule before it was in the file do not count.
    const absl::Time decided = std::max(nominal, entry.state.cursor);
    attempt.window_end = WindowEnd(*entry.job, {.at = nominal, .wall = {}}, decided);
    if (attempt.window_end < absl::InfiniteFuture()) {
      attempt.window_end = std::min(attempt.window_end, next);
    }
    attempt.full_until += entry.job->queue_full_wait - earlier.queue_full_wait;
    next = nominal;
  }
}

// ---- Ending -------------------------------------------------------------------------------------

void SchedulerEngine::SetTentativeOutcome(Attempt& attempt, TentativeOutcome tentative_outcome) {
  if (!attempt.tentative_outcome.has_value())
    attempt.tentative_outcome = std::move(tentative_outcome);
}

void SchedulerEngine::SetTentativeOutcomes(Entry& entry, const TentativeOutcome& tentative_outcome,
                                           ports::Moment now) {
  std::vector<absl::Time> nominals;
  for (auto& [nominal, attempt] : entry.attempts) {
    SetTentativeOutcome(attempt, tentative_outcome);
    nominals.push_back(nominal);
  }
  for (const absl::Time nominal : nominals) ConcludeIfSettled(entry, nominal, now);
}

void SchedulerEngine::ExpireAttempts(Entry& entry, ports::Moment now) {
  if (!entry.job.has_value()) return;
  size_t waiting = 0;
  std::vector<absl::Time> nominals;
  for (auto attempt = entry.attempts.rbegin(); attempt != entry.attempts.rend(); ++attempt) {
    if (attempt->second.tentative_outcome.has_value()) continue;
    const bool too_many =
        entry.job->catch_up.kind == CatchUp::Kind::kAll && ++waiting > entry.job->catch_up.count;
    if (!attempt->second.has_request && (too_many || attempt->second.window_end <= now.wall)) {
      nominals.push_back(attempt->first);
    }
  }
  std::reverse(nominals.begin(), nominals.end());
  for (const absl::Time nominal : nominals) {
    Attempt& attempt = entry.attempts.at(nominal);
    SetTentativeOutcome(attempt, {attempt.was_full ? FiringOutcome::kSkippedQueueFull
                                                   : FiringOutcome::kSkippedDirectorDown,
                                  "", attempt.last_error});
    ConcludeIfSettled(entry, nominal, now);
  }
}

void SchedulerEngine::ConcludeIfSettled(Entry& entry, absl::Time nominal, ports::Moment now) {
  const auto found = entry.attempts.find(nominal);
  if (found == entry.attempts.end()) return;
  Attempt& attempt = found->second;
  // If the director may have the task, a lookup comes first.
  if (attempt.has_request || !attempt.tentative_outcome.has_value() ||
      attempt.lookup_at.has_value()) {
    return;
  }
  const bool may_go_direct =
      attempt.tentative_outcome->outcome == FiringOutcome::kSkippedDirectorDown &&
      entry.job.has_value() && !entry.job->agent_url.empty() &&
      attempt.direct_starts < kDirectStartsMax;
  if (!may_go_direct)
    return Conclude(entry, nominal, TentativeOutcome(*attempt.tentative_outcome), now);
  if (std::exchange(attempt.direct, true)) return;
  attempt.not_before = now.monotonic;
  outcome_.changes.emplace_back(
      Intent{.job = entry.state.job, .nominal = nominal, .moved = attempt.moved, .direct = true});
}

void SchedulerEngine::Conclude(Entry& entry, absl::Time nominal,
                               const TentativeOutcome& tentative_outcome, ports::Moment now) {
  std::string detail = tentative_outcome.detail;
  if (entry.job.has_value()) {
    const auto occurrence = core::NextOccurrence(*entry.job, nominal - absl::Nanoseconds(1));
    const bool is_known = occurrence.has_value() && occurrence->at == nominal;
    const std::string note = is_known ? GapNote(*occurrence) : "";
    absl::StrAppend(&detail, detail.empty() || note.empty() ? "" : "; ", note);
  }
  WriteRow(entry, {.job = entry.state.job,
                   .nominal = nominal,
                   .outcome = tentative_outcome.outcome,
                   .decided_at = now.wall,
                   .queue_id = tentative_outcome.queue_id,
                   .request_id = core::CronRequestId(entry.state.job, nominal),
                   .detail = std::move(detail)});
  outcome_.changes.emplace_back(IntentResolved{entry.state.job, nominal});
  entry.attempts.erase(nominal);
  if (entry.attempts.empty()) jobs_with_attempts_.erase(entry.state.job);
}

void SchedulerEngine::ConcludeFired(Entry& entry, absl::Time nominal, const std::string& queue_id,
                                    const std::string& detail, ports::Moment now) {
  JobState& state = entry.state;
  const bool moved = entry.attempts.at(nominal).moved;
  Conclude(entry, nominal,
           {moved ? FiringOutcome::kDstGapMoved : FiringOutcome::kFired, queue_id, detail}, now);
  ++state.runs;
  TrackTask(entry, queue_id);
  if (!entry.job.has_value()) return;
  if (entry.job->max_runs == 0 || state.runs < entry.job->max_runs) return;
  state.finished = true;
  AbandonAttempts(entry, now);
  Reschedule(entry, now);
}

void SchedulerEngine::AbandonAttempts(Entry& entry, ports::Moment now) {
  for (auto& [nominal, attempt] : entry.attempts) attempt.direct_starts = kDirectStartsMax;
  SetTentativeOutcomes(entry, {FiringOutcome::kMissedWindow, "", "max_runs is reached"}, now);
}

// ---- Answers ------------------------------------------------------------------------------------

SchedulerEngine::Entry* SchedulerEngine::FindAttempt(const RequestContext& context) {
  const auto found = jobs_.find(context.name);
  if (found == jobs_.end()) return nullptr;
  const auto attempt = found->second.attempts.find(context.nominal);
  if (attempt == found->second.attempts.end()) return nullptr;
  attempt->second.has_request = false;
  return &found->second;
}

void SchedulerEngine::OnSubmitAnswer(const RequestContext& context,
                                     const absl::StatusOr<AcceptedTask>& answer,
                                     ports::Moment now) {
  Entry* entry = FindAttempt(context);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(context.nominal);
  const SubmitAnswer meaning = ClassifyAnswer(answer.status());
  if (meaning == SubmitAnswer::kAccepted) {
    return ConcludeFired(*entry, context.nominal, answer->queue_id, "", now);
  }
  const std::string queue_id = QueueIdFrom(answer.status());
  if (meaning == SubmitAnswer::kIdReused) {
    return ConcludeFired(*entry, context.nominal, queue_id, std::string(kIdReusedDetail), now);
  }
  attempt.last_error = std::string(answer.status().message());
  attempt.was_full = meaning == SubmitAnswer::kFull;
  // This answer is conclusive only if no earlier submit can still reach the director.
  if (ProvesIdUnused(meaning) && attempt.lookup_at <= context.sent_at) attempt.lookup_at.reset();
  if (meaning == SubmitAnswer::kUnknown) attempt.lookup_at = context.sent_at + kCallTimeout;
  if (meaning == SubmitAnswer::kOverlap) {
    SetTentativeOutcome(attempt, {FiringOutcome::kSkippedOverlap, queue_id, ""});
  } else if (meaning == SubmitAnswer::kRejected) {
    SetTentativeOutcome(attempt, {FiringOutcome::kRejected, "", attempt.last_error});
  } else if (meaning == SubmitAnswer::kFull && now.wall >= attempt.full_until) {
    SetTentativeOutcome(attempt, {FiringOutcome::kSkippedQueueFull, "", attempt.last_error});
  } else if (meaning == SubmitAnswer::kFull) {
    const absl::Duration wait =
        base::GetErrorDetails(answer.status()).retry_after.value_or(kFullRetryMax);
    attempt.not_before = now.monotonic + std::min(std::clamp(wait, kFullRetryMin, kFullRetryMax),
                                                  attempt.full_until - now.wall);
  }
  ConcludeIfSettled(*entry, context.nominal, now);
}

void SchedulerEngine::OnLookupAnswer(const RequestContext& context,
                                     const absl::StatusOr<AcceptedTask>& answer,
                                     ports::Moment now) {
  Entry* entry = FindAttempt(context);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(context.nominal);
  switch (ClassifyLookup(answer.status())) {
    case LookupAnswer::kFound:
      return ConcludeFired(*entry, context.nominal, answer->queue_id, "", now);
    case LookupAnswer::kUnused:
      attempt.lookup_at.reset();
      break;
    case LookupAnswer::kUnknown:
      attempt.lookup_at = now.monotonic + kLookupRetryDelay;
      break;
  }
  ConcludeIfSettled(*entry, context.nominal, now);
}

void SchedulerEngine::OnDirectStartAnswer(const RequestContext& context,
                                          const absl::StatusOr<AcceptedTask>& answer,
                                          ports::Moment now) {
  Entry* entry = FindAttempt(context);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(context.nominal);
  if (answer.ok() || absl::IsAlreadyExists(answer.status())) {
    const std::string run = answer.ok() ? answer->queue_id : "";
    return ConcludeFired(
        *entry, context.nominal, "",
        absl::StrCat("started directly on the agent", run.empty() ? "" : ": ", run), now);
  }
  ++attempt.direct_starts;
  attempt.not_before = now.monotonic + kDirectStartRetryDelay;
  attempt.tentative_outcome->detail =
      absl::StrCat(attempt.last_error, attempt.last_error.empty() ? "" : "; ",
                   "direct start: ", absl::string_view(answer.status().message()));
  ConcludeIfSettled(*entry, context.nominal, now);
}

void SchedulerEngine::OnPriorTaskStatuses(const RequestContext& context, const absl::Status& status,
                                          ports::Moment now) {
  Entry* entry = FindAttempt(context);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(context.nominal);
  // Run the job even if the director never answers this.
  attempt.prior_statuses_known = status.ok() || ClassifyAnswer(status) == SubmitAnswer::kRejected;
  if (!attempt.prior_statuses_known) attempt.not_before = now.monotonic + kProbeFirst;
  ConcludeIfSettled(*entry, context.nominal, now);
}

}  // namespace callboard::scheduler
