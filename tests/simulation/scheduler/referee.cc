#include "tests/simulation/scheduler/referee.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/core/stable_hash.h"
#include "libs/scheduler/answer.h"
#include "libs/scheduler/engine.h"

namespace callboard::simulation::cron {
namespace {

// Turns take a little time.
constexpr absl::Duration kTurnsTime = absl::Milliseconds(100);

using RowsOfAJob = test::MemoryLedgers::Rows::mapped_type;

// Whether `row` is not the first of its occurrence or trigger. A trigger that came to nothing may
// be repeated, and has a row for each time.
bool IsSecond(const core::Firing& row, const RowsOfAJob& rows) {
  if (row.trigger.empty()) return rows.contains({row.nominal, ""});
  return HasRun(row.outcome) && std::any_of(rows.begin(), rows.end(), [&row](const auto& entry) {
           return entry.second.trigger == row.trigger && HasRun(entry.second.outcome);
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
    Span& span = spans_[name].back();
    span.seen = std::max(span.seen, now);
    // While the last one waits for its jitter, those before it wait with it.
    const auto last = core::LastOf(job, now + absl::Nanoseconds(1));
    const bool waits = last.has_value() && last->at + core::JitterOf(job, *last) > now;
    if (!waits) span.decided = std::max(span.decided, now);
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
    const bool is_first = spans_[name].empty();
    const bool is_same = before != jobs_.end() && same && before->second.catch_up == job.catch_up &&
                         before->second.queue_full_wait == job.queue_full_wait;
    if (!is_first && !is_same) revised_.insert(name);
    // Of one that comes back after its clock was set back, what was decided stays so.
    const bool is_new = spans_[name].empty();
    const absl::Time after = is_new ? now : std::max(now, spans_[name].back().seen);
    if (same) {
      spans_[name].back().job = job;
    } else {
      spans_[name].push_back({job, after, after, after});
    }
  }
  previous_ = std::exchange(jobs_, std::move(next));
  // Occurrences that are under way may end for the file's sake.
  OnRestart();
}

void Referee::OnRestart() {
  begun_.clear();
  full_.clear();
}

void Referee::OnBatch(absl::Span<const LedgerChange> batch, const test::MemoryLedgers& disk,
                      absl::Time now) {
  for (const LedgerChange& change : batch) {
    if (const auto* row = std::get_if<core::Firing>(&change)) {
      OnRow(*row, disk);
      CheckGivenUp(*row, now);
    }
    if (const auto* state = std::get_if<JobState>(&change)) OnState(*state, disk);
    if (const auto* intent = std::get_if<Intent>(&change)) OnIntent(*intent, disk, now);
  }
  CheckCatchUp(batch, disk, now);
  previous_.clear();
}

void Referee::OnState(const JobState& state, const test::MemoryLedgers& disk) {
  const auto found = disk.ledgered().jobs.find(state.job);
  const JobState before = found == disk.ledgered().jobs.end() ? JobState() : found->second;
  if (before.cursor > state.cursor) Fail(state.job + ": its cursor went back");
  // Only of a job that has just failed again: the file may have changed its limit since the last.
  const auto job = jobs_.find(state.job);
  const uint32_t most = job == jobs_.end() ? 0 : job->second.pause_after_failures;
  const bool has_failed = state.failures_in_row > before.failures_in_row;
  if (has_failed && most > 0 && state.failures_in_row >= most && !state.pause.has_value()) {
    Fail(absl::StrCat(state.job, " has failed ", state.failures_in_row,
                      " times in a row and is not paused"));
  }
}

void Referee::OnIntent(const Intent& intent, const test::MemoryLedgers& disk, absl::Time now) {
  const std::string id = core::CronRequestId(intent.job, intent.nominal);
  const auto job = jobs_.find(intent.job);
  const bool is_new = !disk.ledgered().intents.contains({intent.job, intent.nominal});
  // One whose number of runs is bounded may wait for others.
  const bool is_plain = !bounded_.contains(intent.job) && !revised_.contains(intent.job);
  if (is_new && is_plain && job != jobs_.end() && !intent.direct) {
    begun_[id] = now + job->second.queue_full_wait;
  } else {
    begun_.erase(id);
  }
}

void Referee::OnRow(const core::Firing& row, const test::MemoryLedgers& disk) {
  begun_.erase(row.request_id);
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
  if (rows != disk.rows().end() && IsSecond(row, rows->second)) {
    Fail(absl::StrCat(row.request_id, " has a second row"));
  }
  CheckRow(row);
}

void Referee::CheckRow(const core::Firing& row) {
  const auto task = truth_.tasks.find(row.request_id);
  const bool is_direct = absl::StrContains(row.detail, "past the queue");
  const bool started = truth_.direct.contains({replica_, row.request_id});
  // Of a trigger that is called twice, one call may come to nothing.
  const auto calls = trigger_calls_.find(row.request_id);
  const bool is_repeated = calls != trigger_calls_.end() && calls->second > 1;
  if (core::HasRun(row.outcome) && is_direct) {
    if (!started) Fail(row.request_id + " was not started on the agent, as its row says");
  } else if (core::HasRun(row.outcome)) {
    if (task == truth_.tasks.end() || task->second.queue_id != row.queue_id) {
      Fail(
          absl::StrCat(row.request_id, " has a row for ", row.queue_id, ", which is not its task"));
    }
  } else if (task != truth_.tasks.end() && task->second.replica == replica_ && !is_repeated) {
    Fail(absl::StrCat(row.request_id, " is ", Name(row.outcome), " and has a task"));
  }
  if (started && task != truth_.tasks.end() && task->second.replica == replica_) {
    Fail(row.request_id + " was started on the agent and in the queue");
  }
}

void Referee::CheckGivenUp(const core::Firing& row, absl::Time now) {
  const auto job = jobs_.find(row.job);
  const bool is_of_the_schedule = absl::StartsWith(row.request_id, "cron/");
  if (!is_of_the_schedule || job == jobs_.end() || revised_.contains(row.job)) return;
  if (job->second.catch_up.kind != core::CatchUp::Kind::kLatest) return;
  const absl::Time seen = std::max(now, spans_.at(row.job).back().seen);
  absl::Time end = row.nominal + scheduler::kCatchUpAge;
  if (const auto next = core::NextFiringOf(job->second, row.nominal)) end = std::min(end, next->at);
  if (row.outcome == FiringOutcome::kSkippedQueueFull) {
    // A restart after the clock was set back waits as long again, by the clock as it is now.
    if (now < seen) return;
    end = std::min(end, row.nominal + job->second.queue_full_wait);
  } else if (row.outcome != FiringOutcome::kSkippedDirectorDown) {
    return;
  }
  if (seen < end) {
    Fail(absl::StrCat(row.request_id, " is given up (", Name(row.outcome), ": ", row.detail,
                      ") at ", absl::FormatTime(seen), " although nothing takes its place before ",
                      absl::FormatTime(end)));
  }
}

void Referee::OnTriggered(const std::string& request_id, const std::string& queue_id,
                          const test::MemoryLedgers& disk) {
  if (HasRow(request_id, queue_id, disk.rows())) return;
  Fail(absl::StrCat(request_id, " is answered with ", queue_id, " and has no row"));
}

void Referee::CheckCatchUp(absl::Span<const LedgerChange> batch, const test::MemoryLedgers& disk,
                           absl::Time now) {
  // Occurrences that are begun, by job; and those that are given up.
  std::map<std::string, std::set<absl::Time>> begun;
  std::map<std::string, absl::Time> missed;
  for (const LedgerChange& change : batch) {
    if (const auto* intent = std::get_if<Intent>(&change)) {
      if (!disk.ledgered().intents.contains({intent->job, intent->nominal})) {
        begun[intent->job].insert(intent->nominal);
      }
    }
  }
  for (const LedgerChange& change : batch) {
    const auto* row = std::get_if<core::Firing>(&change);
    if (row == nullptr || disk.ledgered().intents.contains({row->job, row->nominal})) continue;
    // Begun and over at once, because its job left the file.
    if (begun[row->job].erase(row->nominal) > 0) continue;
    if (row->outcome == FiringOutcome::kMissedWindow) {
      missed[row->job] = std::max(missed[row->job], row->nominal);
    }
  }
  for (const auto& [name, nominals] : begun) {
    if (nominals.empty()) continue;
    const core::Job& job = spans_[name].back().job;
    const auto most_of = [](const core::Job& version) {
      return version.catch_up.kind == core::CatchUp::Kind::kAll ? version.catch_up.count : 1u;
    };
    size_t most = most_of(job);
    // As the file said until now, when it has just changed.
    if (previous_.contains(name)) most += most_of(previous_.at(name));
    if (nominals.size() > most) Fail(absl::StrCat(name, " catches up too many"));
    if (missed.contains(name) && *nominals.begin() < missed[name]) {
      Fail(name + " catches up an earlier one and gives up a later one");
    }
    const absl::Duration late = now - *nominals.begin();
    const bool has_changed = spans_[name].size() > 1;
    if (job.catch_up.kind == core::CatchUp::Kind::kNone && !has_changed &&
        late > scheduler::kOnTime + job.jitter + absl::Seconds(1)) {
      Fail(absl::StrCat(name, " catches up one that is ", absl::FormatDuration(late), " late"));
    }
    if (job.catch_up.kind != core::CatchUp::Kind::kAll && late > scheduler::kCatchUpAge) {
      Fail(name + " catches up one that is more than a day late");
    }
  }
}

void Referee::OnAnswer(const core::Submission& submission, const absl::Status& status,
                       core::Moment now) {
  using scheduler::Answer;
  const std::string& id = submission.spec.request_id;
  const Answer meaning = scheduler::MeaningOf(status);
  for (const Answer trouble :
       {Answer::kUnknown, Answer::kNotSent, Answer::kNotNow, Answer::kDraining}) {
    if (meaning != trouble) continue;
    begun_.erase(id);
    return OnTrouble();
  }
  const auto begun = begun_.find(id);
  if (meaning != Answer::kFull || submission.validate_only || begun == begun_.end()) return;
  full_[id] = now.monotonic +
              std::clamp(begun->second - now.wall, absl::ZeroDuration(), scheduler::kFullRetryMax);
}

void Referee::CheckAskedAgain(absl::Duration now) {
  for (const auto& [id, until] : full_) {
    if (now <= until + kTurnsTime) continue;
    Fail(id + " waits for a place and is not submitted again in time");
  }
}

void Referee::OnSubmit(const core::Submission& submission, const test::MemoryLedgers& disk,
                       absl::Duration now) {
  const std::string& id = submission.spec.request_id;
  if (!absl::StartsWith(id, "cron/") || submission.validate_only) return;
  CheckAskedAgain(now);
  full_.erase(id);
  const auto& intents = disk.ledgered().intents;
  const bool has_intent =
      std::any_of(intents.begin(), intents.end(), [&id](const auto& keyed_intent) {
        const Intent& intent = keyed_intent.second;
        return core::CronRequestId(intent.job, intent.nominal) == id && !intent.direct;
      });
  if (!has_intent) Fail(id + " is submitted without an intent on disk");
  const auto state = disk.ledgered().jobs.find(submission.spec.source_job);
  if (state == disk.ledgered().jobs.end()) return Fail(id + " is of no job");
  if (state->second.pause.has_value()) Fail(id + " is submitted while its job is paused");
}

// ---- The end ------------------------------------------------------------------------------------

void Referee::OnEnd(const test::MemoryLedgers& disk, absl::Time now) {
  for (const auto& [key, intent] : disk.ledgered().intents) {
    if (intent.nominal < now - absl::Minutes(5)) {
      Fail(core::CronRequestId(intent.job, intent.nominal) + " is not decided");
    }
  }
  for (const auto& [name, rows] : disk.rows()) {
    for (const auto& [key, row] : rows) CheckRow(row);
  }
  for (const auto& [id, task] : truth_.tasks) {
    const bool is_our_trigger = task.replica == replica_ && absl::StartsWith(id, "trigger/");
    if (is_our_trigger && !HasRow(id, task.queue_id, disk.rows())) {
      Fail(absl::StrCat(id, " has ", task.queue_id, " and no row"));
    }
  }
  for (const auto& [id, backfill] : disk.ledgered().backfills) {
    if (!backfill.ended_at.has_value()) Fail(absl::StrCat("backfill ", id, " goes on"));
  }
  for (const auto& [name, spans] : spans_) {
    if (!failure_.empty()) break;
    Rows of_the_schedule;
    if (const auto rows = disk.rows().find(name); rows != disk.rows().end()) {
      for (const auto& [key, row] : rows->second) {
        if (row.trigger.empty()) of_the_schedule.emplace(row.nominal, row);
      }
    }
    // When its last run was is for the engine's tests.
    if (bounded_.contains(name)) continue;
    for (const Span& span : spans) {
      if (!failure_.empty()) break;
      CheckSpan(span, of_the_schedule, now);
    }
  }
}

void Referee::CheckSpan(const Span& span, const Rows& rows, absl::Time now) {
  // What waits for an answer.
  const absl::Time until = std::min(span.decided, now - absl::Minutes(5));
  for (auto occurrence = core::NextOf(span.job, span.after);
       occurrence.has_value() && failure_.empty() && occurrence->at <= until;
       occurrence = core::NextOf(span.job, occurrence->at)) {
    const auto row = rows.lower_bound(occurrence->at);
    if (row == rows.end())
      return Fail(core::CronRequestId(span.job.name, occurrence->at) +
                  " has no row, nor has any after it");
    if (row->first == occurrence->at) {
      const FiringOutcome outcome = row->second.outcome;
      const bool may_run = occurrence->Fires();
      const bool is_backfill = absl::StartsWith(row->second.request_id, "backfill/");
      if (core::HasRun(outcome) && !may_run && !is_backfill) {
        Fail(row->second.request_id + " ran although its clock says that it does not happen");
      }
      continue;
    }
    // A row that stands for many.
    if (row->second.more == 0) {
      return Fail(core::CronRequestId(span.job.name, occurrence->at) + " has no row");
    }
    occurrence->at = row->first;
  }
}

}  // namespace callboard::simulation::cron
