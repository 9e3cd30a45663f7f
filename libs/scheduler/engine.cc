#include "libs/scheduler/engine.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"

namespace callboard::scheduler {
namespace {

constexpr absl::string_view kFile = "file";

}  // namespace

absl::Status JobNotFound(const std::string& name) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("there is no job ", base::EscapeForError(name))),
      "JOB_NOT_FOUND", {{"job", name}});
}

SchedulerEngine::SchedulerEngine(LedgerContents contents, OutgoingRequestId last, ports::Moment now)
    : backfills_(std::move(contents.backfills)),
      last_request_(last),
      next_poll_at_(now.monotonic),
      last_moment_(now) {
  for (auto& [name, state] : contents.jobs) {
    if (!state.tracked_tasks.empty()) jobs_with_tracked_tasks_.insert(name);
    for (const std::string& trigger : state.open_triggers) {
      trigger_lookups_[{name, trigger}] = now.monotonic + kCallTimeout;
    }
    jobs_[name].state = std::move(state);
  }
  for (const auto& [key, intent] : contents.intents) {
    Entry& entry = jobs_[intent.job];
    entry.state.job = intent.job;
    // It is unknown whether the submit was sent.
    Attempt attempt = {
        .moved = intent.moved, .direct = intent.direct, .lookup_at = now.monotonic + kCallTimeout};
    if (intent.direct) attempt.lookup_at.reset();
    entry.attempts.emplace(intent.nominal, std::move(attempt));
    jobs_with_attempts_[intent.job] = &entry;
  }
  for (const auto& [id, backfill] : backfills_) {
    if (!backfill.ended_at.has_value()) backfill_paces_[id] = {.not_before = now.monotonic};
  }
}

Outcome SchedulerEngine::TakeOutcome(ports::Moment now) {
  IssueRequests(now);
  for (const std::string& name : std::exchange(changed_, {})) {
    const auto found = jobs_.find(name);
    if (found != jobs_.end()) outcome_.changes.emplace_back(found->second.state);
  }
  return std::exchange(outcome_, {});
}

// ---- The file -----------------------------------------------------------------------------------

void SchedulerEngine::SetJobs(std::vector<core::Job> jobs, ports::Moment now) {
  DetectClockStep(now);
  std::map<std::string, core::Job> incoming;
  for (core::Job& job : jobs) {
    std::string name = job.name;
    const bool is_new = incoming.emplace(std::move(name), std::move(job)).second;
    CHECK(is_new) << "two jobs have one name";
  }
  // Occurrences that are already due are decided by the old schedule.
  for (auto& [name, entry] : jobs_) {
    if (!entry.job.has_value()) continue;
    const auto found = incoming.find(name);
    const bool same = found != incoming.end() && core::HaveSameTimes(*entry.job, found->second);
    if (!same) DecideDue(entry, now, /*jitter=*/false);
  }
  for (auto& [name, job] : incoming) UpdateJob(jobs_[name], std::move(job), now);
  for (auto& [name, entry] : jobs_) {
    if (!incoming.contains(name)) RemoveJob(entry, now);
  }
}

void SchedulerEngine::UpdateJob(Entry& entry, core::Job job, ports::Moment now) {
  JobState& state = entry.state;
  const JobState before = state;
  const bool is_new = state.cursor == absl::Time();
  state.job = job.name;
  if (is_new || state.removed_at.has_value()) {
    // Occurrences before the job existed are not caught up. If the cursor was set by a clock that
    // was far ahead, the job would wait for very long: removing it from the file and adding it
    // again resets the cursor.
    if (state.cursor - now.wall > kCatchUpAgeMax) state.cursor = now.wall;
    state.cursor = std::max(state.cursor, now.wall);
    state.removed_at.reset();
  } else if (entry.job.has_value() && !core::HaveSameTimes(*entry.job, job)) {
    state.cursor = std::max(state.cursor, now.wall);
  }
  const bool finished = job.max_runs > 0 && state.runs >= job.max_runs;
  if (state.finished && !finished) state.cursor = std::max(state.cursor, now.wall);
  state.finished = finished;
  const std::optional<core::Job> earlier = std::exchange(entry.job, std::move(job));
  ApplyPausedInFile(entry, now);
  if (earlier.has_value()) {
    UpdateDeadlines(entry, *earlier);
  } else {
    RestoreAttempts(entry, now);
  }
  if (state.finished) AbandonAttempts(entry, now);
  if (state != before) MarkChanged(entry);
  Reschedule(entry, now);
}

void SchedulerEngine::ApplyPausedInFile(Entry& entry, ports::Moment now) {
  const bool paused = entry.job->paused;
  if (paused == entry.state.paused_in_file) return;
  entry.state.paused_in_file = paused;
  if (paused) {
    BeginPause(entry, {.by = std::string(kFile), .why = "paused in the jobs file"}, now);
  } else if (entry.state.pause.has_value()) {
    EndPause(entry, now);
  }
}

void SchedulerEngine::RemoveJob(Entry& entry, ports::Moment now) {
  if (!entry.state.removed_at.has_value()) {
    entry.state.removed_at = now.wall;
    MarkChanged(entry);
  }
  entry.job.reset();
  SetTentativeOutcomes(
      entry, {core::FiringOutcome::kMissedWindow, "", "the job was removed from the file"}, now);
  for (auto& [id, backfill] : backfills_) {
    if (backfill.job == entry.state.job && !backfill.ended_at.has_value()) {
      EndBackfill(backfill, now);
    }
  }
  Reschedule(entry, now);
}

// ---- Time ---------------------------------------------------------------------------------------

void SchedulerEngine::FireTimers(ports::Moment now) {
  DetectClockStep(now);
  while (!timers_.empty() && timers_.begin()->first <= now.wall &&
         outcome_.changes.size() < kTurnChangesMax) {
    RunJobTimer(jobs_.at(timers_.begin()->second), now);
  }
  // A copy, because expiry may remove entries.
  std::vector<Entry*> entries;
  for (const auto& [name, entry] : jobs_with_attempts_) entries.push_back(entry);
  for (Entry* entry : entries) ExpireAttempts(*entry, now);
}

void SchedulerEngine::RunJobTimer(Entry& entry, ports::Moment now) {
  JobState& state = entry.state;
  if (!entry.job.has_value()) {
    if (entry.attempts.empty() && *state.removed_at + kRemovedJobRetention <= now.wall) {
      timers_.erase({entry.timer_at, state.job});
      changed_.erase(state.job);
      jobs_with_tracked_tasks_.erase(state.job);
      outcome_.changes.emplace_back(JobForgotten{state.job});
      jobs_.erase(std::string(state.job));
      return;
    }
    return Reschedule(entry, now);
  }
  DecideDue(entry, now);
  if (state.pause.has_value() && state.pause->until <= now.wall) {
    AddNotice("pause_ended", state.job,
              absl::StrCat("the pause ended; ", EndPause(entry, now), " occurrences were skipped"));
  }
  Reschedule(entry, now);
}

void SchedulerEngine::Reschedule(Entry& entry, ports::Moment now) {
  const JobState& state = entry.state;
  absl::Time next = absl::InfiniteFuture();
  if (!entry.job.has_value()) {
    next = *state.removed_at + kRemovedJobRetention;
    // Its attempts are not concluded yet; try again later.
    if (next <= now.wall) next = now.wall + absl::Hours(1);
  } else if (!state.finished) {
    next = NextDueAt(*entry.job, DueQueryFor(entry, now));
  }
  if (entry.job.has_value() && state.pause.has_value()) next = std::min(next, state.pause->until);
  if (next == entry.timer_at) return;
  timers_.erase({entry.timer_at, state.job});
  entry.timer_at = next;
  if (next != absl::InfiniteFuture()) timers_.insert({next, state.job});
}

absl::Duration SchedulerEngine::TimeUntilNextTimer(ports::Moment now) const {
  absl::Time wall = timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first;
  for (const auto& [name, entry] : jobs_with_attempts_) {
    for (const auto& [nominal, attempt] : entry->attempts) {
      if (!attempt.tentative_outcome.has_value() && !attempt.has_request)
        wall = std::min(wall, attempt.window_end);
    }
  }
  absl::Duration wait = wall - now.wall;
  if (wait != absl::InfiniteDuration()) wait = std::min(wait, absl::Seconds(1));
  return std::max(absl::ZeroDuration(), std::min(wait, NextRequestAt() - now.monotonic));
}

void SchedulerEngine::DetectClockStep(ports::Moment now) {
  const absl::Duration step =
      (now.wall - last_moment_.wall) - (now.monotonic - last_moment_.monotonic);
  const absl::Time before = last_moment_.wall;
  last_moment_ = now;
  if (step <= -kClockStepMin) {
    // A timer that waits for a jitter may now be far in the future.
    for (auto& [name, entry] : jobs_) {
      if (entry.job.has_value()) Reschedule(entry, now);
    }
    AddNotice("clock_set_back", "",
              absl::StrCat("by ", absl::FormatDuration(-step),
                           "; no occurrence runs twice: jobs continue when the clock has passed ",
                           TimeText(before),
                           " again; a job that would wait more than 24 hours continues "
                           "now if it is removed from the jobs file and added again"));
  } else if (step >= kClockStepMin) {
    AddNotice("clock_set_forward", "",
              absl::StrCat("by ", absl::FormatDuration(step),
                           "; occurrences in between are handled by each job's catch_up"));
  }
}

// ---- Due occurrences ----------------------------------------------------------------------------

DueQuery SchedulerEngine::DueQueryFor(const Entry& entry, ports::Moment now) const {
  const std::optional<Pause>& pause = entry.state.pause;
  return {.after = entry.state.cursor,
          .now = now.wall,
          .paused_until = pause.has_value() ? pause->until : absl::InfinitePast()};
}

void SchedulerEngine::DecideDue(Entry& entry, ports::Moment now, bool jitter) {
  JobState& state = entry.state;
  if (state.finished) return;
  DueQuery query = DueQueryFor(entry, now);
  query.jitter = jitter;
  DueDecisions due = DecideOccurrences(*entry.job, query);
  if (due.cursor == state.cursor) return;
  for (DueDecisions::Row& row : due.rows) {
    WriteRow(entry, {.job = state.job,
                     .nominal = row.occurrence.at,
                     .outcome = row.outcome,
                     .decided_at = now.wall,
                     .request_id = core::CronRequestId(state.job, row.occurrence.at),
                     .detail = std::move(row.detail),
                     .more = row.more});
  }
  for (const core::Occurrence& occurrence : due.fires) OpenAttempt(entry, occurrence, now);
  state.cursor = due.cursor;
  MarkChanged(entry);
}

void SchedulerEngine::WriteRow(Entry& entry, core::Firing row) {
  JobState& state = entry.state;
  if (row.outcome == core::FiringOutcome::kPaused && state.pause.has_value()) {
    state.pause->skipped += 1 + row.more;
  }
  // A trigger or a backfill counts as the latest action even if its nominal time is earlier.
  const bool is_by_operator = !absl::StartsWith(row.request_id, "cron/");
  if (row.nominal >= state.last_nominal || is_by_operator) {
    state.last_nominal = row.nominal;
    state.last_outcome = row.outcome;
  }
  if (core::HasTask(row.outcome) && !row.queue_id.empty()) state.last_queue_id = row.queue_id;
  outcome_.changes.emplace_back(std::move(row));
  if (++state.rows >= kRowsPerJobMax + kRowsTrimmedPerBatch) {
    outcome_.changes.emplace_back(RowsTrimmed{state.job, kRowsTrimmedPerBatch});
    state.rows -= kRowsTrimmedPerBatch;
  }
  MarkChanged(entry);
}

void SchedulerEngine::AddNotice(std::string event, const std::string& job, std::string text) {
  outcome_.notices.push_back({std::move(event), job, std::move(text)});
}

}  // namespace callboard::scheduler
