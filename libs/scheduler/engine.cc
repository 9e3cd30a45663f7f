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

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

}  // namespace

absl::Status JobNotFound(const std::string& name) {
  return base::WithReason(absl::NotFoundError(absl::StrCat("there is no job ", base::Echoed(name))),
                          "JOB_NOT_FOUND", {{"job", name}});
}

SchedulerEngine::SchedulerEngine(Ledgered ledgered, OrderId last, core::Moment now)
    : backfills_(std::move(ledgered.backfills)),
      last_order_(last),
      ask_ends_at_(now.monotonic),
      last_moment_(now) {
  for (auto& [name, state] : ledgered.jobs) {
    if (!state.watched.empty()) watching_.insert(name);
    for (const std::string& trigger : state.open_triggers) {
      trigger_asks_[{name, trigger}] = now.monotonic + kCallTimeout;
    }
    jobs_[name].state = std::move(state);
  }
  for (const auto& [key, intent] : ledgered.intents) {
    Entry& entry = jobs_[intent.job];
    entry.state.job = intent.job;
    // Whether it was sent is not known.
    Attempt attempt = {
        .moved = intent.moved, .direct = intent.direct, .settled_at = now.monotonic + kCallTimeout};
    if (intent.direct) attempt.settled_at.reset();
    entry.attempts.emplace(intent.nominal, std::move(attempt));
    open_[intent.job] = &entry;
  }
  for (const auto& [id, backfill] : backfills_) {
    if (!backfill.ended_at.has_value()) paces_[id] = {.not_before = now.monotonic};
  }
}

Outcome SchedulerEngine::TakeOutcome(core::Moment now) {
  GiveOrders(now);
  for (const std::string& name : std::exchange(changed_, {})) {
    const auto found = jobs_.find(name);
    if (found != jobs_.end()) outcome_.changes.emplace_back(found->second.state);
  }
  return std::exchange(outcome_, {});
}

// ---- The file -----------------------------------------------------------------------------------

void SchedulerEngine::SetJobs(std::vector<core::Job> jobs, core::Moment now) {
  NoteClock(now);
  std::map<std::string, core::Job> incoming;
  for (core::Job& job : jobs) {
    std::string name = job.name;
    const bool is_new = incoming.emplace(std::move(name), std::move(job)).second;
    CHECK(is_new) << "two jobs have one name";
  }
  // What is due by now is decided as it was said until now.
  for (auto& [name, entry] : jobs_) {
    if (!entry.job.has_value()) continue;
    const auto found = incoming.find(name);
    const bool same = found != incoming.end() && core::HaveSameTimes(*entry.job, found->second);
    if (!same) DecideDue(entry, now, /*jitter=*/false);
  }
  for (auto& [name, job] : incoming) Adopt(jobs_[name], std::move(job), now);
  for (auto& [name, entry] : jobs_) {
    if (!incoming.contains(name)) Leave(entry, now);
  }
}

void SchedulerEngine::Adopt(Entry& entry, core::Job job, core::Moment now) {
  JobState& state = entry.state;
  const JobState before = state;
  const bool is_new = state.cursor == absl::Time();
  state.job = job.name;
  if (is_new || state.left_at.has_value()) {
    // Nothing of before it existed is caught up. One that was decided by a clock that was far ahead
    // would wait for very long, and needs a way out.
    if (state.cursor - now.wall > kCatchUpAge) state.cursor = now.wall;
    state.cursor = std::max(state.cursor, now.wall);
    state.left_at.reset();
  } else if (entry.job.has_value() && !core::HaveSameTimes(*entry.job, job)) {
    state.cursor = std::max(state.cursor, now.wall);
  }
  const bool finished = job.max_runs > 0 && state.runs >= job.max_runs;
  if (state.finished && !finished) state.cursor = std::max(state.cursor, now.wall);
  state.finished = finished;
  const std::optional<core::Job> earlier = std::exchange(entry.job, std::move(job));
  FollowFile(entry, now);
  if (earlier.has_value()) {
    FollowTimes(entry, *earlier);
  } else {
    Revive(entry, now);
  }
  if (state.finished) EndRuns(entry, now);
  if (state != before) MarkChanged(entry);
  Reschedule(entry, now);
}

void SchedulerEngine::FollowFile(Entry& entry, core::Moment now) {
  const bool paused = entry.job->paused;
  if (paused == entry.state.paused_in_file) return;
  entry.state.paused_in_file = paused;
  if (paused) {
    BeginPause(entry, {.by = std::string(kFile), .why = "paused in the jobs file"}, now);
  } else if (entry.state.pause.has_value()) {
    EndPause(entry, now);
  }
}

void SchedulerEngine::Leave(Entry& entry, core::Moment now) {
  if (!entry.state.left_at.has_value()) {
    entry.state.left_at = now.wall;
    MarkChanged(entry);
  }
  entry.job.reset();
  SetVerdicts(entry, {core::FiringOutcome::kMissedWindow, "", "the job left the file"}, now);
  for (auto& [id, backfill] : backfills_) {
    if (backfill.job == entry.state.job && !backfill.ended_at.has_value()) {
      EndBackfill(backfill, now);
    }
  }
  Reschedule(entry, now);
}

// ---- Time ---------------------------------------------------------------------------------------

void SchedulerEngine::FireTimers(core::Moment now) {
  NoteClock(now);
  while (!agenda_.empty() && agenda_.begin()->first <= now.wall &&
         outcome_.changes.size() < kTurnChangesMax) {
    Look(jobs_.at(agenda_.begin()->second), now);
  }
  // Settling may close them.
  std::vector<Entry*> open;
  for (const auto& [name, entry] : open_) open.push_back(entry);
  for (Entry* entry : open) CheckWindows(*entry, now);
}

void SchedulerEngine::Look(Entry& entry, core::Moment now) {
  JobState& state = entry.state;
  if (!entry.job.has_value()) {
    if (entry.attempts.empty() && *state.left_at + kLeftJobMemory <= now.wall) {
      agenda_.erase({entry.look_at, state.job});
      changed_.erase(state.job);
      watching_.erase(state.job);
      outcome_.changes.emplace_back(JobForgotten{state.job});
      jobs_.erase(std::string(state.job));
      return;
    }
    return Reschedule(entry, now);
  }
  DecideDue(entry, now);
  if (state.pause.has_value() && state.pause->until <= now.wall) {
    Tell("pause_ended", state.job,
         absl::StrCat("its time is over; ", EndPause(entry, now), " occurrences were skipped"));
  }
  Reschedule(entry, now);
}

void SchedulerEngine::Reschedule(Entry& entry, core::Moment now) {
  const JobState& state = entry.state;
  absl::Time next = absl::InfiniteFuture();
  if (!entry.job.has_value()) {
    next = *state.left_at + kLeftJobMemory;
    // One that is still settled with is looked at again later.
    if (next <= now.wall) next = now.wall + absl::Hours(1);
  } else if (!state.finished) {
    next = NextDue(*entry.job, QueryOf(entry, now));
  }
  if (entry.job.has_value() && state.pause.has_value()) next = std::min(next, state.pause->until);
  if (next == entry.look_at) return;
  agenda_.erase({entry.look_at, state.job});
  entry.look_at = next;
  if (next != absl::InfiniteFuture()) agenda_.insert({next, state.job});
}

absl::Duration SchedulerEngine::UntilNextTimer(core::Moment now) const {
  absl::Time wall = agenda_.empty() ? absl::InfiniteFuture() : agenda_.begin()->first;
  for (const auto& [name, entry] : open_) {
    for (const auto& [nominal, attempt] : entry->attempts) {
      if (!attempt.verdict.has_value() && !attempt.asked) wall = std::min(wall, attempt.window_end);
    }
  }
  absl::Duration wait = wall - now.wall;
  if (wait != absl::InfiniteDuration()) wait = std::min(wait, absl::Seconds(1));
  return std::max(absl::ZeroDuration(), std::min(wait, NextOrderAt() - now.monotonic));
}

void SchedulerEngine::NoteClock(core::Moment now) {
  const absl::Duration step =
      (now.wall - last_moment_.wall) - (now.monotonic - last_moment_.monotonic);
  const absl::Time before = last_moment_.wall;
  last_moment_ = now;
  if (step <= -kClockStepMin) {
    // One that waits for its jitter may do so by a time that is now far ahead.
    for (auto& [name, entry] : jobs_) {
      if (entry.job.has_value()) Reschedule(entry, now);
    }
    Tell(
        "clock_set_back", "",
        absl::StrCat("by ", absl::FormatDuration(-step),
                     "; what was decided already happens only once: jobs go on when it has passed ",
                     TimeText(before),
                     " again; one that shall not wait can be taken out of the "
                     "jobs file and put back"));
  } else if (step >= kClockStepMin) {
    Tell("clock_set_forward", "",
         absl::StrCat("by ", absl::FormatDuration(step),
                      "; what fell into it is caught up as each job says"));
  }
}

// ---- What is due --------------------------------------------------------------------------------

DueQuery SchedulerEngine::QueryOf(const Entry& entry, core::Moment now) const {
  const std::optional<Pause>& pause = entry.state.pause;
  return {.after = entry.state.cursor,
          .now = now.wall,
          .paused_until = pause.has_value() ? pause->until : absl::InfinitePast()};
}

void SchedulerEngine::DecideDue(Entry& entry, core::Moment now, bool jitter) {
  JobState& state = entry.state;
  if (state.finished) return;
  DueQuery query = QueryOf(entry, now);
  query.jitter = jitter;
  Due due = FindDue(*entry.job, query);
  if (due.cursor == state.cursor) return;
  for (Due::Row& row : due.rows) {
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
  // A backfill is about an earlier time, and all the same what the job did last.
  const bool is_asked_for = !absl::StartsWith(row.request_id, "cron/");
  if (row.nominal >= state.last_nominal || is_asked_for) {
    state.last_nominal = row.nominal;
    state.last_outcome = row.outcome;
  }
  if (core::HasRun(row.outcome) && !row.queue_id.empty()) state.last_queue_id = row.queue_id;
  outcome_.changes.emplace_back(std::move(row));
  if (++state.rows >= kRowsPerJobMax + kTrimmedAtOnce) {
    outcome_.changes.emplace_back(RowsTrimmed{state.job, kTrimmedAtOnce});
    state.rows -= kTrimmedAtOnce;
  }
  MarkChanged(entry);
}

void SchedulerEngine::Tell(std::string event, const std::string& job, std::string text) {
  outcome_.notices.push_back({std::move(event), job, std::move(text)});
}

}  // namespace callboard::scheduler
