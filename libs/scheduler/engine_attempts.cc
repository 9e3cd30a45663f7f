// From an intent to its row.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/scheduler/engine.h"

namespace callboard::scheduler {
namespace {

using core::CatchUp;
using core::FiringOutcome;

// How long an occurrence may be submitted: until the next one after `decided` that fires, but no
// longer than it would be caught up. One of many that are all to run is given up when there are too
// many of them.
absl::Time WindowEnd(const core::Job& job, const core::Occurrence& occurrence, absl::Time decided) {
  if (job.catch_up.kind == CatchUp::Kind::kAll) return absl::InfiniteFuture();
  absl::Time end = occurrence.at + kCatchUpAge;
  if (const auto next = core::NextFiringOf(job, decided)) end = std::min(end, next->at);
  if (job.catch_up.kind == CatchUp::Kind::kNone) {
    end = std::min(end, occurrence.at + core::JitterOf(job, occurrence) + kOnTime);
  }
  return end;
}

// Of a request id that stands for a task of other content.
constexpr absl::string_view kOthersTask =
    "another scheduler, or an earlier version of the file, asked for it with other content";

}  // namespace

// ---- Beginning ----------------------------------------------------------------------------------

void SchedulerEngine::OpenAttempt(Entry& entry, const core::Occurrence& occurrence,
                                  core::Moment now) {
  const bool moved = occurrence.kind == core::Occurrence::Kind::kGapMoved;
  entry.attempts[occurrence.at] = {.moved = moved,
                                   .window_end = WindowEnd(*entry.job, occurrence, occurrence.at),
                                   .full_until = now.wall + entry.job->queue_full_wait,
                                   .not_before = now.monotonic};
  open_[entry.state.job] = &entry;
  outcome_.changes.emplace_back(
      Intent{.job = entry.state.job, .nominal = occurrence.at, .moved = moved});
}

void SchedulerEngine::Revive(Entry& entry, core::Moment now) {
  const CatchUp::Kind catch_up = entry.job->catch_up.kind;
  std::vector<absl::Time> over;
  for (auto& [nominal, attempt] : entry.attempts) {
    const core::Occurrence occurrence = {.at = nominal, .wall = {}};
    attempt.window_end = WindowEnd(*entry.job, occurrence, nominal);
    attempt.full_until = now.wall + entry.job->queue_full_wait;
    attempt.not_before = now.monotonic;
    if (entry.state.pause.has_value()) {
      // It began under way: what was not accepted by then does not run any more.
      SetVerdict(attempt, {FiringOutcome::kPaused});
    } else if (attempt.direct) {
      SetVerdict(attempt, {FiringOutcome::kSkippedDirectorDown});
    } else if (now.wall - nominal > kCatchUpAge) {
      // The director may have had it, and forgotten.
      SetVerdict(attempt,
                 {FiringOutcome::kMissedWindow, "",
                  "it was being submitted when the scheduler stopped, too long ago to find "
                  "out whether it was accepted"});
    } else if (attempt.window_end <= now.wall) {
      SetVerdict(attempt, {catch_up == CatchUp::Kind::kLatest ? FiringOutcome::kCoalesced
                                                              : FiringOutcome::kMissedWindow,
                           "", "its time was over when the scheduler was back"});
    }
    over.push_back(nominal);
  }
  for (const absl::Time nominal : over) Settle(entry, nominal, now);
}

void SchedulerEngine::FollowTimes(Entry& entry, const core::Job& earlier) {
  // None waits longer than until the next one that waits, unless all are to run.
  absl::Time next = absl::InfiniteFuture();
  for (auto it = entry.attempts.rbegin(); it != entry.attempts.rend(); ++it) {
    auto& [nominal, attempt] = *it;
    // What the new times had before they were in the file does not happen.
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

void SchedulerEngine::SetVerdict(Attempt& attempt, Verdict verdict) {
  if (!attempt.verdict.has_value()) attempt.verdict = std::move(verdict);
}

void SchedulerEngine::SetVerdicts(Entry& entry, const Verdict& verdict, core::Moment now) {
  std::vector<absl::Time> over;
  for (auto& [nominal, attempt] : entry.attempts) {
    SetVerdict(attempt, verdict);
    over.push_back(nominal);
  }
  for (const absl::Time nominal : over) Settle(entry, nominal, now);
}

void SchedulerEngine::CheckWindows(Entry& entry, core::Moment now) {
  if (!entry.job.has_value()) return;
  size_t waiting = 0;
  std::vector<absl::Time> over;
  for (auto attempt = entry.attempts.rbegin(); attempt != entry.attempts.rend(); ++attempt) {
    if (attempt->second.verdict.has_value()) continue;
    const bool too_many =
        entry.job->catch_up.kind == CatchUp::Kind::kAll && ++waiting > entry.job->catch_up.count;
    if (!attempt->second.asked && (too_many || attempt->second.window_end <= now.wall)) {
      over.push_back(attempt->first);
    }
  }
  std::reverse(over.begin(), over.end());
  for (const absl::Time nominal : over) {
    Attempt& attempt = entry.attempts.at(nominal);
    SetVerdict(attempt, {attempt.was_full ? FiringOutcome::kSkippedQueueFull
                                          : FiringOutcome::kSkippedDirectorDown,
                         "", attempt.trouble});
    Settle(entry, nominal, now);
  }
}

void SchedulerEngine::Settle(Entry& entry, absl::Time nominal, core::Moment now) {
  const auto found = entry.attempts.find(nominal);
  if (found == entry.attempts.end()) return;
  Attempt& attempt = found->second;
  // What may be with the director is asked for first.
  if (attempt.asked || !attempt.verdict.has_value() || attempt.settled_at.has_value()) return;
  const bool may_go_direct = attempt.verdict->outcome == FiringOutcome::kSkippedDirectorDown &&
                             entry.job.has_value() && !entry.job->agent_url.empty() &&
                             attempt.direct_tries < kDirectTriesMax;
  if (!may_go_direct) return Conclude(entry, nominal, Verdict(*attempt.verdict), now);
  if (std::exchange(attempt.direct, true)) return;
  attempt.not_before = now.monotonic;
  outcome_.changes.emplace_back(
      Intent{.job = entry.state.job, .nominal = nominal, .moved = attempt.moved, .direct = true});
}

void SchedulerEngine::Conclude(Entry& entry, absl::Time nominal, const Verdict& verdict,
                               core::Moment now) {
  std::string detail = verdict.detail;
  if (entry.job.has_value()) {
    const auto occurrence = core::NextOf(*entry.job, nominal - absl::Nanoseconds(1));
    const bool is_known = occurrence.has_value() && occurrence->at == nominal;
    const std::string note = is_known ? GapNote(*occurrence) : "";
    absl::StrAppend(&detail, detail.empty() || note.empty() ? "" : "; ", note);
  }
  WriteRow(entry, {.job = entry.state.job,
                   .nominal = nominal,
                   .outcome = verdict.outcome,
                   .decided_at = now.wall,
                   .queue_id = verdict.queue_id,
                   .request_id = core::CronRequestId(entry.state.job, nominal),
                   .detail = std::move(detail)});
  outcome_.changes.emplace_back(IntentResolved{entry.state.job, nominal});
  entry.attempts.erase(nominal);
  if (entry.attempts.empty()) open_.erase(entry.state.job);
}

void SchedulerEngine::ConcludeFired(Entry& entry, absl::Time nominal, const std::string& queue_id,
                                    const std::string& detail, core::Moment now) {
  JobState& state = entry.state;
  const bool moved = entry.attempts.at(nominal).moved;
  Conclude(entry, nominal,
           {moved ? FiringOutcome::kDstGapMoved : FiringOutcome::kFired, queue_id, detail}, now);
  ++state.runs;
  WatchTask(entry, queue_id);
  if (!entry.job.has_value()) return;
  if (entry.job->max_runs == 0 || state.runs < entry.job->max_runs) return;
  state.finished = true;
  EndRuns(entry, now);
  Reschedule(entry, now);
}

void SchedulerEngine::EndRuns(Entry& entry, core::Moment now) {
  for (auto& [nominal, attempt] : entry.attempts) attempt.direct_tries = kDirectTriesMax;
  SetVerdicts(entry, {FiringOutcome::kMissedWindow, "", "max_runs is reached"}, now);
}

// ---- Answers ------------------------------------------------------------------------------------

SchedulerEngine::Entry* SchedulerEngine::FindAttempt(const About& about) {
  const auto found = jobs_.find(about.name);
  if (found == jobs_.end()) return nullptr;
  const auto attempt = found->second.attempts.find(about.nominal);
  if (attempt == found->second.attempts.end()) return nullptr;
  attempt->second.asked = false;
  return &found->second;
}

void SchedulerEngine::OnAttempt(const About& about, const absl::StatusOr<Accepted>& answer,
                                core::Moment now) {
  Entry* entry = FindAttempt(about);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(about.nominal);
  const Answer meaning = MeaningOf(answer.status());
  if (meaning == Answer::kAccepted) {
    return ConcludeFired(*entry, about.nominal, answer->queue_id, "", now);
  }
  const std::string queue_id = QueueIdIn(answer.status());
  if (meaning == Answer::kOtherContent) {
    return ConcludeFired(*entry, about.nominal, queue_id, std::string(kOthersTask), now);
  }
  attempt.trouble = std::string(answer.status().message());
  attempt.was_full = meaning == Answer::kFull;
  // An earlier submit may still be on its way to the director when this one is refused.
  if (SaysIdIsFree(meaning) && attempt.settled_at <= about.sent_at) attempt.settled_at.reset();
  if (meaning == Answer::kUnknown) attempt.settled_at = about.sent_at + kCallTimeout;
  if (meaning == Answer::kOverlap) {
    SetVerdict(attempt, {FiringOutcome::kSkippedOverlap, queue_id, ""});
  } else if (meaning == Answer::kRefused) {
    SetVerdict(attempt, {FiringOutcome::kRefused, "", attempt.trouble});
  } else if (meaning == Answer::kFull && now.wall >= attempt.full_until) {
    SetVerdict(attempt, {FiringOutcome::kSkippedQueueFull, "", attempt.trouble});
  } else if (meaning == Answer::kFull) {
    const absl::Duration wait =
        base::DetailsOf(answer.status()).retry_after.value_or(kFullRetryMax);
    attempt.not_before = now.monotonic + std::min(std::clamp(wait, kFullRetryMin, kFullRetryMax),
                                                  attempt.full_until - now.wall);
  }
  Settle(*entry, about.nominal, now);
}

void SchedulerEngine::OnAsked(const About& about, const absl::StatusOr<Accepted>& answer,
                              core::Moment now) {
  Entry* entry = FindAttempt(about);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(about.nominal);
  const Answer meaning = MeaningOf(answer.status());
  if (meaning == Answer::kAccepted && answer->deduplicated) {
    return ConcludeFired(*entry, about.nominal, answer->queue_id, "", now);
  }
  if (meaning == Answer::kOtherContent) {
    return ConcludeFired(*entry, about.nominal, QueueIdIn(answer.status()), "", now);
  }
  if (meaning == Answer::kAccepted || SaysIdIsFree(meaning)) attempt.settled_at.reset();
  Settle(*entry, about.nominal, now);
}

void SchedulerEngine::OnDirect(const About& about, const absl::StatusOr<Accepted>& answer,
                               core::Moment now) {
  Entry* entry = FindAttempt(about);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(about.nominal);
  if (answer.ok() || absl::IsAlreadyExists(answer.status())) {
    const std::string run = answer.ok() ? answer->queue_id : "";
    return ConcludeFired(*entry, about.nominal, "",
                         absl::StrCat("direct, past the queue", run.empty() ? "" : ": ", run), now);
  }
  ++attempt.direct_tries;
  attempt.not_before = now.monotonic + kDirectRetry;
  attempt.verdict->detail =
      absl::StrCat(attempt.trouble, attempt.trouble.empty() ? "" : "; ",
                   "past the queue: ", absl::string_view(answer.status().message()));
  Settle(*entry, about.nominal, now);
}

void SchedulerEngine::OnEndsBefore(const About& about, const absl::Status& status,
                                   core::Moment now) {
  Entry* entry = FindAttempt(about);
  if (entry == nullptr) return;
  Attempt& attempt = entry->attempts.at(about.nominal);
  // A director that never tells is no reason not to run.
  attempt.ends_known = status.ok() || MeaningOf(status) == Answer::kRefused;
  if (!attempt.ends_known) attempt.not_before = now.monotonic + kProbeFirst;
  Settle(*entry, about.nominal, now);
}

}  // namespace callboard::scheduler
