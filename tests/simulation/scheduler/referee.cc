#include "tests/simulation/scheduler/referee.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/core/hash.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/engine.h"

namespace callboard::simulation::cron {
namespace {

// Upper bound for the time of a turn.
constexpr absl::Duration kTurnTime = absl::Milliseconds(100);

using RowsOfAJob = test::MemoryLedgers::Rows::mapped_type;

// Returns whether `row` duplicates a row of its occurrence or trigger. A trigger that did not run
// may be repeated, and has a row for each call.
bool IsDuplicate(const core::Firing& row, const RowsOfAJob& rows) {
  if (row.trigger.empty()) return rows.contains({row.nominal, ""});
  return HasTask(row.outcome) && std::any_of(rows.begin(), rows.end(), [&row](const auto& entry) {
           return entry.second.trigger == row.trigger && HasTask(entry.second.outcome);
         });
}

bool HasRow(const std::string& request_id, const std::string& queue_id,
            const test::MemoryLedgers::Rows& jobs) {
  for (const auto& [job, rows] : jobs) {
    for (const auto& [key, row] : rows) {
      if (row.request_id == request_id && row.queue_id == queue_id) return true;
    }
  }
  return false;
}

}  // namespace

using core::FiringOutcome;
using scheduler::Intent;
using scheduler::JobState;
using scheduler::LedgerChange;

void Referee::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = absl::StrCat("replica ", replica_, ": ", what);
}

void Referee::OnTurn(absl::Time now) {
  for (const auto& [name, job] : jobs_) {
    JobVersion& version = versions_[name].back();
    version.seen = std::max(version.seen, now);
    // While the last occurrence waits for its jitter, earlier ones wait with it.
    const auto last = core::PreviousOccurrence(job, now + absl::Nanoseconds(1));
    const bool waits = last.has_value() && last->at + core::OccurrenceJitter(job, *last) > now;
    if (!waits) version.decided = std::max(version.decided, now);
  }
}

void Referee::OnJobs(const std::vector<core::Job>& jobs, absl::Time now) {
  OnTurn(now);
  std::map<std::string, core::Job> next;
  for (const core::Job& job : jobs) next.emplace(job.name, job);
  for (const auto& [name, job] : next) {
    const auto before = jobs_.find(name);
    const bool same = before != jobs_.end() && core::HaveSameTimes(before->second, job);
    if (job.max_runs > 0) bounded_.insert(name);
    const bool is_first = versions_[name].empty();
    const bool is_same = before != jobs_.end() && same && before->second.catch_up == job.catch_up &&
                         before->second.queue_full_wait == job.queue_full_wait;
    if (!is_first && !is_same) revised_.insert(name);
    // If a job comes back after its clock was set back, earlier decisions remain valid.
    const bool is_new = versions_[name].empty();
    const absl::Time after = is_new ? now : std::max(now, versions_[name].back().seen);
    if (same) {
      versions_[name].back().job = job;
    } else {
      versions_[name].push_back({job, after, after, after});
    }
  }
  previous_ = std::exchange(jobs_, std::move(next));
  // Occurrences in progress may end because of the new file.
  OnRestart();
}

void Referee::OnRestart() {
  started_.clear();
  full_.clear();
}

void Referee::OnBatch(absl::Span<const LedgerChange> batch, const test::MemoryLedgers& disk,
                      absl::Time now) {
  for (const LedgerChange& change : batch) {
    if (const auto* row = std::get_if<core::Firing>(&change)) {
      OnRow(*row, disk);
      CheckAbandoned(*row, now);
    }
    if (const auto* state = std::get_if<JobState>(&change)) OnState(*state, disk);
    if (const auto* intent = std::get_if<Intent>(&change)) OnIntent(*intent, disk, now);
  }
  CheckCatchUp(batch, disk, now);
  previous_.clear();
}

void Referee::OnState(const JobState& state, const test::MemoryLedgers& disk) {
  const auto found = disk.contents().jobs.find(state.job);
  const JobState before = found == disk.contents().jobs.end() ? JobState() : found->second;
  if (before.cursor > state.cursor) Fail(state.job + ": its cursor went back");
  // Only for a job that has just failed again: the file may have changed its limit since then.
  const auto job = jobs_.find(state.job);
  const uint32_t limit = job == jobs_.end() ? 0 : job->second.pause_after_failures;
  const bool has_failed = state.failures_in_row > before.failures_in_row;
  if (has_failed && limit > 0 && state.failures_in_row >= limit && !state.pause.has_value()) {
    Fail(absl::StrCat(state.job, " has failed ", state.failures_in_row,
                      " times in a row and is not paused"));
  }
}

void Referee::OnIntent(const Intent& intent, const test::MemoryLedgers& disk, absl::Time now) {
  const std::string id = core::CronRequestId(intent.job, intent.nominal);
  const auto job = jobs_.find(intent.job);
  const bool is_new = !disk.contents().intents.contains({intent.job, intent.nominal});
  // A job with a bounded number of runs may wait for other runs.
  const bool is_plain = !bounded_.contains(intent.job) && !revised_.contains(intent.job);
  if (is_new && is_plain && job != jobs_.end() && !intent.direct) {
    started_[id] = now + job->second.queue_full_wait;
  } else {
    started_.erase(id);
  }
}

void Referee::OnRow(const core::Firing& row, const test::MemoryLedgers& disk) {
  started_.erase(row.request_id);
  full_.erase(row.request_id);
  ++rows_;
  hash_ = core::StableHash()
              .Add(hash_)
              .Add(row.job)
              .Add(row.request_id)
              .Add(row.queue_id)
              .Add(Name(row.outcome))
              .value();
  if (absl::StartsWith(row.request_id, "backfill/")) return CheckRow(row);
  const auto rows = disk.rows().find(row.job);
  if (rows != disk.rows().end() && IsDuplicate(row, rows->second)) {
    Fail(absl::StrCat(row.request_id, " has a second row"));
  }
  CheckRow(row);
}

void Referee::CheckRow(const core::Firing& row) {
  const auto task = submitted_.tasks.find(row.request_id);
  const bool is_direct = absl::StrContains(row.detail, "started directly");
  const bool started = submitted_.direct.contains({replica_, row.request_id});
  // If a trigger is called twice, one of the calls may have no task.
  const auto calls = trigger_calls_.find(row.request_id);
  const bool is_repeated = calls != trigger_calls_.end() && calls->second > 1;
  if (core::HasTask(row.outcome) && is_direct) {
    if (!started) Fail(row.request_id + " was not started on the agent, although its row says so");
  } else if (core::HasTask(row.outcome)) {
    if (task == submitted_.tasks.end() || task->second.queue_id != row.queue_id) {
      Fail(
          absl::StrCat(row.request_id, " has a row for ", row.queue_id, ", which is not its task"));
    }
  } else if (task != submitted_.tasks.end() && task->second.replica == replica_ && !is_repeated) {
    Fail(absl::StrCat(row.request_id, " is ", Name(row.outcome), " and has a task"));
  }
  if (started && task != submitted_.tasks.end() && task->second.replica == replica_) {
    Fail(row.request_id + " was started on the agent and in the queue");
  }
}

void Referee::CheckAbandoned(const core::Firing& row, absl::Time now) {
  const auto job = jobs_.find(row.job);
  const bool is_of_the_schedule = absl::StartsWith(row.request_id, "cron/");
  if (!is_of_the_schedule || job == jobs_.end() || revised_.contains(row.job)) return;
  if (job->second.catch_up.kind != core::CatchUp::Kind::kLatest) return;
  const absl::Time seen = std::max(now, versions_.at(row.job).back().seen);
  absl::Time end = row.nominal + scheduler::kCatchUpAgeMax;
  if (const auto next = core::NextFiringOccurrence(job->second, row.nominal))
    end = std::min(end, next->at);
  if (row.outcome == FiringOutcome::kSkippedQueueFull) {
    // After a restart with a clock that was set back, the wait starts again by the current clock.
    if (now < seen) return;
    end = std::min(end, row.nominal + job->second.queue_full_wait);
  } else if (row.outcome != FiringOutcome::kSkippedDirectorDown) {
    return;
  }
  if (seen < end) {
    Fail(absl::StrCat(row.request_id, " is abandoned (", Name(row.outcome), ": ", row.detail,
                      ") at ", absl::FormatTime(seen),
                      " although no later occurrence replaces it before ", absl::FormatTime(end)));
  }
}

void Referee::OnTriggered(const std::string& request_id, const std::string& queue_id,
                          const test::MemoryLedgers& disk) {
  if (HasRow(request_id, queue_id, disk.rows())) return;
  Fail(absl::StrCat(request_id, " is answered with ", queue_id, " and has no row"));
}

void Referee::CheckCatchUp(absl::Span<const LedgerChange> batch, const test::MemoryLedgers& disk,
                           absl::Time now) {
  // Started and missed occurrences by job.
  std::map<std::string, std::set<absl::Time>> begun;
  std::map<std::string, absl::Time> missed;
  for (const LedgerChange& change : batch) {
    if (const auto* intent = std::get_if<Intent>(&change)) {
      if (!disk.contents().intents.contains({intent->job, intent->nominal})) {
        begun[intent->job].insert(intent->nominal);
      }
    }
  }
  for (const LedgerChange& change : batch) {
    const auto* row = std::get_if<core::Firing>(&change);
    if (row == nullptr || disk.contents().intents.contains({row->job, row->nominal})) continue;
    // Started and ended in the same batch, because its job left the file.
    if (begun[row->job].erase(row->nominal) > 0) continue;
    if (row->outcome == FiringOutcome::kMissedWindow) {
      missed[row->job] = std::max(missed[row->job], row->nominal);
    }
  }
  for (const auto& [name, nominals] : begun) {
    if (nominals.empty()) continue;
    const core::Job& job = versions_[name].back().job;
    const auto most_of = [](const core::Job& version) {
      return version.catch_up.kind == core::CatchUp::Kind::kAll ? version.catch_up.count : 1u;
    };
    size_t limit = most_of(job);
    // The limit of the previous file, if it has just changed.
    if (previous_.contains(name)) limit += most_of(previous_.at(name));
    if (nominals.size() > limit) Fail(absl::StrCat(name, " catches up too many occurrences"));
    if (missed.contains(name) && *nominals.begin() < missed[name]) {
      Fail(name + " catches up an occurrence and abandons a later one");
    }
    const absl::Duration late = now - *nominals.begin();
    const bool has_changed = versions_[name].size() > 1;
    if (job.catch_up.kind == core::CatchUp::Kind::kNone && !has_changed &&
        late > scheduler::kOnTimeLimit + job.jitter + absl::Seconds(1)) {
      Fail(absl::StrCat(name, " catches up an occurrence that is ", absl::FormatDuration(late),
                        " late"));
    }
    if (job.catch_up.kind != core::CatchUp::Kind::kAll && late > scheduler::kCatchUpAgeMax) {
      Fail(name + " catches up an occurrence that is more than a day late");
    }
  }
}

void Referee::OnAnswer(const std::string& request_id, const absl::Status& status,
                       ports::Moment now) {
  using scheduler::SubmitAnswer;
  const SubmitAnswer meaning = scheduler::ClassifyAnswer(status);
  for (const SubmitAnswer trouble : {SubmitAnswer::kUnknown, SubmitAnswer::kNotSent,
                                     SubmitAnswer::kTryLater, SubmitAnswer::kDraining}) {
    if (meaning != trouble) continue;
    started_.erase(request_id);
    return OnDirectorFailed();
  }
  const auto begun = started_.find(request_id);
  if (meaning != SubmitAnswer::kFull || begun == started_.end()) return;
  full_[request_id] = now.monotonic + std::clamp(begun->second - now.wall, absl::ZeroDuration(),
                                                 scheduler::kFullRetryMax);
}

void Referee::CheckResubmitted(absl::Duration now) {
  for (const auto& [id, until] : full_) {
    if (now <= until + kTurnTime) continue;
    Fail(id + " waits for a slot and was not submitted again in time");
  }
}

void Referee::OnSubmit(const core::JobSubmission& submission, const test::MemoryLedgers& disk,
                       absl::Duration now) {
  const std::string& id = submission.request_id;
  if (!absl::StartsWith(id, "cron/")) return;
  CheckResubmitted(now);
  full_.erase(id);
  const auto& intents = disk.contents().intents;
  const bool has_intent =
      std::any_of(intents.begin(), intents.end(), [&id](const auto& keyed_intent) {
        const Intent& intent = keyed_intent.second;
        return core::CronRequestId(intent.job, intent.nominal) == id && !intent.direct;
      });
  if (!has_intent) Fail(id + " is submitted without an intent on disk");
  const auto state = disk.contents().jobs.find(submission.job);
  if (state == disk.contents().jobs.end()) return Fail(id + " belongs to no job");
  if (state->second.pause.has_value()) Fail(id + " is submitted while its job is paused");
}

// ---- The end ------------------------------------------------------------------------------------

void Referee::OnEnd(const test::MemoryLedgers& disk, absl::Time now) {
  for (const auto& [key, intent] : disk.contents().intents) {
    if (intent.nominal < now - absl::Minutes(5)) {
      Fail(core::CronRequestId(intent.job, intent.nominal) + " is not decided");
    }
  }
  for (const auto& [name, rows] : disk.rows()) {
    for (const auto& [key, row] : rows) CheckRow(row);
  }
  for (const auto& [id, task] : submitted_.tasks) {
    const bool is_our_trigger = task.replica == replica_ && absl::StartsWith(id, "trigger/");
    if (is_our_trigger && !HasRow(id, task.queue_id, disk.rows())) {
      Fail(absl::StrCat(id, " has ", task.queue_id, " and no row"));
    }
  }
  for (const auto& [id, backfill] : disk.contents().backfills) {
    if (!backfill.ended_at.has_value()) Fail(absl::StrCat("backfill ", id, " has not ended"));
  }
  for (const auto& [name, versions] : versions_) {
    if (!failure_.empty()) break;
    Rows of_the_schedule;
    if (const auto rows = disk.rows().find(name); rows != disk.rows().end()) {
      for (const auto& [key, row] : rows->second) {
        if (row.trigger.empty()) of_the_schedule.emplace(row.nominal, row);
      }
    }
    // The unit tests of the engine cover bounded jobs.
    if (bounded_.contains(name)) continue;
    for (const JobVersion& version : versions) {
      if (!failure_.empty()) break;
      CheckVersion(version, of_the_schedule, now);
    }
  }
}

void Referee::CheckVersion(const JobVersion& version, const Rows& rows, absl::Time now) {
  // Later occurrences may still wait for an answer.
  const absl::Time until = std::min(version.decided, now - absl::Minutes(5));
  for (auto occurrence = core::NextOccurrence(version.job, version.after);
       occurrence.has_value() && failure_.empty() && occurrence->at <= until;
       occurrence = core::NextOccurrence(version.job, occurrence->at)) {
    const auto row = rows.lower_bound(occurrence->at);
    if (row == rows.end())
      return Fail(core::CronRequestId(version.job.name, occurrence->at) +
                  " has no row, nor has any after it");
    if (row->first == occurrence->at) {
      const FiringOutcome outcome = row->second.outcome;
      const bool may_run = occurrence->Fires();
      const bool is_backfill = absl::StartsWith(row->second.request_id, "backfill/");
      if (core::HasTask(outcome) && !may_run && !is_backfill) {
        Fail(row->second.request_id + " ran although it does not exist in its time zone");
      }
      continue;
    }
    // One row may stand for several occurrences.
    if (row->second.more == 0) {
      return Fail(core::CronRequestId(version.job.name, occurrence->at) + " has no row");
    }
    occurrence->at = row->first;
  }
}

}  // namespace callboard::simulation::cron
