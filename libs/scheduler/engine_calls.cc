// What people ask for: triggers, pauses, backfills; and how tasks end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/scheduler/engine.h"

namespace callboard::scheduler {

using core::FiringOutcome;

namespace {

// Of a trigger or a backfill.
absl::Status CheckCallName(absl::string_view field, const std::string& name) {
  const absl::Status status = core::CheckName(name, core::kCallNameBytesMax, field);
  return status.ok() ? status : base::InvalidField(field, status.message());
}

}  // namespace

absl::StatusOr<SchedulerEngine::Entry*> SchedulerEngine::Find(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || !found->second.job.has_value()) return JobNotFound(name);
  return &found->second;
}

// ---- Triggers -----------------------------------------------------------------------------------

void SchedulerEngine::Trigger(CallId call, const TriggerQuery& query, core::Moment now) {
  const absl::StatusOr<Entry*> entry = Find(query.job);
  const absl::Status status = entry.ok() ? CheckCallName("trigger_id", query.id) : entry.status();
  if (!status.ok()) {
    outcome_.triggered.push_back({call, status});
    return;
  }
  const core::Job& job = *(*entry)->job;
  const core::OverlapPolicy overlap = query.force ? core::OverlapPolicy::kAllow : job.overlap;
  OpenTrigger(**entry, query.id, now);
  const OrderId id = NewOrder({.what = About::What::kTrigger,
                               .name = job.name,
                               .nominal = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall)),
                               .trigger = query.id,
                               .call = call},
                              now);
  outcome_.orders.emplace_back(SubmitOrder{
      id, core::SubmissionOf(job, core::TriggerRequestId(job.name, query.id), overlap)});
}

void SchedulerEngine::OpenTrigger(Entry& entry, const std::string& id, core::Moment now) {
  std::vector<std::string>& open = entry.state.open_triggers;
  if (std::find(open.begin(), open.end(), id) == open.end()) {
    if (open.size() == kOpenTriggersMax) CloseTrigger(entry, std::string(open.front()));
    open.push_back(id);
    MarkChanged(entry);
  }
  trigger_asks_[{entry.state.job, id}] = now.monotonic + kCallTimeout;
}

void SchedulerEngine::CloseTrigger(Entry& entry, const std::string& id) {
  trigger_asks_.erase({entry.state.job, id});
  if (std::erase(entry.state.open_triggers, id) > 0) MarkChanged(entry);
}

void SchedulerEngine::OnTriggered(const About& about, const absl::StatusOr<Accepted>& answer,
                                  core::Moment now) {
  if (const auto found = jobs_.find(about.name); found != jobs_.end()) {
    WriteTriggerRow(found->second, about, answer, now);
  }
  absl::StatusOr<Accepted> told = answer;
  if (MeaningOf(answer.status()) == Answer::kUnknown) {
    told = base::WithRetryAfter(
        base::WithReason(absl::UnavailableError(absl::StrCat(
                             "the director did not answer; retry with the same trigger_id (",
                             absl::string_view(answer.status().message()), ")")),
                         kDirectorUnreachable),
        kProbeFirst);
  }
  outcome_.triggered.push_back({about.call, std::move(told)});
}

void SchedulerEngine::WriteTriggerRow(Entry& entry, const About& about,
                                      const absl::StatusOr<Accepted>& answer, core::Moment now) {
  JobState& state = entry.state;
  const std::string queue_id = answer.ok() ? answer->queue_id : QueueIdIn(answer.status());
  FiringOutcome outcome = FiringOutcome::kFired;
  switch (MeaningOf(answer.status())) {
    case Answer::kAccepted:
    case Answer::kOtherContent: {
      CloseTrigger(entry, about.trigger);
      std::vector<std::string>& triggered = state.triggered;
      const bool has_row =
          std::find(triggered.begin(), triggered.end(), queue_id) != triggered.end();
      if (has_row) return;
      triggered.push_back(queue_id);
      if (triggered.size() > kTriggeredMax) triggered.erase(triggered.begin());
      break;
    }
    case Answer::kOverlap:
      outcome = FiringOutcome::kSkippedOverlap;
      break;
    case Answer::kFull:
      outcome = FiringOutcome::kSkippedQueueFull;
      break;
    case Answer::kDraining:
    case Answer::kNotNow:
    case Answer::kNotSent:
      outcome = FiringOutcome::kSkippedDirectorDown;
      break;
    case Answer::kRefused:
      outcome = FiringOutcome::kRefused;
      break;
    case Answer::kUnknown:
      // It may have a task: AskTriggers().
      return;
  }
  WriteRow(entry, {.job = state.job,
                   .nominal = about.nominal,
                   .trigger = about.trigger,
                   .outcome = outcome,
                   .decided_at = now.wall,
                   .queue_id = queue_id,
                   .request_id = core::TriggerRequestId(state.job, about.trigger),
                   .detail = absl::StrCat("trigger ", about.trigger, answer.ok() ? "" : ": ",
                                          absl::string_view(answer.status().message()))});
  if (core::HasRun(outcome)) WatchTask(entry, queue_id);
}

void SchedulerEngine::OnTriggerAsked(const About& about, const absl::StatusOr<Accepted>& answer,
                                     core::Moment now) {
  const auto found = jobs_.find(about.name);
  if (found == jobs_.end()) return;
  const Answer meaning = MeaningOf(answer.status());
  if (meaning == Answer::kOtherContent || (answer.ok() && answer->deduplicated)) {
    const std::string queue_id = answer.ok() ? answer->queue_id : QueueIdIn(answer.status());
    return WriteTriggerRow(found->second, about, Accepted{queue_id, /*deduplicated=*/true}, now);
  }
  const std::pair trigger(about.name, about.trigger);
  // It was repeated since, and is asked about again after that.
  if (trigger_asks_.contains(trigger)) return;
  if (meaning == Answer::kUnknown || meaning == Answer::kNotSent || meaning == Answer::kNotNow) {
    trigger_asks_[trigger] = now.monotonic + kProbeLast;
  } else {
    CloseTrigger(found->second, about.trigger);
  }
}

// ---- Pauses -------------------------------------------------------------------------------------

absl::Status SchedulerEngine::PauseJob(const std::string& name, Pause pause, core::Moment now) {
  const absl::StatusOr<Entry*> entry = Find(name);
  if (!entry.ok()) return entry.status();
  if (pause.until <= now.wall) {
    return base::InvalidField("until", "until must be in the future");
  }
  NoteClock(now);
  // What came before it is not part of it.
  DecideDue(**entry, now);
  BeginPause(**entry, std::move(pause), now);
  Reschedule(**entry, now);
  return absl::OkStatus();
}

void SchedulerEngine::BeginPause(Entry& entry, Pause pause, core::Moment now) {
  JobState& state = entry.state;
  pause.since = now.wall;
  pause.skipped = 0;
  if (state.pause.has_value()) {
    pause.since = state.pause->since;
    pause.skipped = state.pause->skipped;
  }
  state.pause = std::move(pause);
  for (auto& [nominal, attempt] : entry.attempts) attempt.direct_tries = kDirectTriesMax;
  SetVerdicts(entry, {FiringOutcome::kPaused}, now);
  MarkChanged(entry);
}

absl::StatusOr<uint64_t> SchedulerEngine::ResumeJob(const std::string& name, core::Moment now) {
  const absl::StatusOr<Entry*> entry = Find(name);
  if (!entry.ok()) return entry.status();
  NoteClock(now);
  const uint64_t skipped = (*entry)->state.pause.has_value() ? EndPause(**entry, now) : 0;
  Reschedule(**entry, now);
  return skipped;
}

uint64_t SchedulerEngine::EndPause(Entry& entry, core::Moment now) {
  // What fell into it is over.
  DecideDue(entry, now);
  const uint64_t skipped = entry.state.pause->skipped;
  entry.state.pause.reset();
  entry.state.failures_in_row = 0;
  MarkChanged(entry);
  return skipped;
}

// ---- Backfills ----------------------------------------------------------------------------------

absl::StatusOr<Backfill> SchedulerEngine::StartBackfill(const BackfillQuery& query,
                                                        core::Moment now) {
  const absl::StatusOr<Entry*> entry = Find(query.job);
  if (!entry.ok()) return entry.status();
  absl::Status status = CheckCallName("backfill_id", query.id);
  if (!status.ok()) return status;
  if (const auto known = backfills_.find(query.id); known != backfills_.end()) {
    const Backfill& same = known->second;
    if (same.job == query.job && same.from == query.from && same.until == query.until) return same;
    return base::WithReason(absl::AlreadyExistsError(absl::StrCat(
                                "backfill ", base::Echoed(query.id), " is for something else")),
                            "BACKFILL_ID_REUSED");
  }
  Backfill backfill = {.id = query.id,
                       .job = query.job,
                       .by = query.by,
                       .from = query.from,
                       .until = query.until,
                       .began_at = now.wall};
  // What is not decided yet happens by itself.
  const absl::Time last = std::min(query.until - absl::Nanoseconds(1), (*entry)->state.cursor);
  for (auto next = core::NextOf(*(*entry)->job, query.from - absl::Nanoseconds(1));
       next.has_value() && next->at <= last; next = core::NextOf(*(*entry)->job, next->at)) {
    if (!next->Fires() || (*entry)->attempts.contains(next->at)) continue;
    if (backfill.occurrences.size() == core::kBackfillOccurrencesMax) {
      return base::WithReason(absl::InvalidArgumentError(absl::StrCat(
                                  "there are more than ", core::kBackfillOccurrencesMax,
                                  " occurrences; ask for a shorter time")),
                              "TOO_MANY_OCCURRENCES");
    }
    backfill.occurrences.push_back(next->at);
  }
  if (query.dry_run) return backfill;
  MakeRoomForBackfill();
  if (backfills_.size() >= core::kBackfillsMax) {
    return base::WithReason(
        absl::ResourceExhaustedError(
            absl::StrCat(core::kBackfillsMax, " backfills are under way; wait for one to end")),
        "TOO_MANY_BACKFILLS");
  }
  Backfill& added = backfills_[query.id] = std::move(backfill);
  if (added.occurrences.empty()) {
    EndBackfill(added, now);
  } else {
    paces_[query.id] = {.not_before = now.monotonic};
    outcome_.changes.emplace_back(added);
  }
  return added;
}

void SchedulerEngine::MakeRoomForBackfill() {
  if (backfills_.size() < core::kBackfillsMax) return;
  auto oldest = backfills_.end();
  for (auto it = backfills_.begin(); it != backfills_.end(); ++it) {
    if (!it->second.ended_at.has_value()) continue;
    if (oldest == backfills_.end() || *it->second.ended_at < *oldest->second.ended_at) oldest = it;
  }
  if (oldest == backfills_.end()) return;
  outcome_.changes.emplace_back(BackfillForgotten{oldest->first});
  backfills_.erase(oldest);
}

void SchedulerEngine::EndBackfill(Backfill& backfill, core::Moment now) {
  backfill.ended_at = now.wall;
  paces_.erase(backfill.id);
  outcome_.changes.emplace_back(backfill);
  Tell("backfill_ended", backfill.job,
       absl::StrCat(backfill.id, ": ", backfill.done, " of ", backfill.occurrences.size()));
}

void SchedulerEngine::OnBackfilled(const About& about, const absl::StatusOr<Accepted>& answer,
                                   core::Moment now) {
  const auto pace = paces_.find(about.name);
  if (pace == paces_.end()) return;
  Backfill& backfill = backfills_.at(about.name);
  const Answer meaning = MeaningOf(answer.status());
  pace->second = {.not_before = now.monotonic + kBackfillInterval};
  const bool has_task = meaning == Answer::kAccepted || meaning == Answer::kOtherContent;
  if (!has_task && meaning != Answer::kRefused) {
    // It waits for as long as it takes.
    const absl::Duration wait =
        base::DetailsOf(answer.status()).retry_after.value_or(kBackfillInterval);
    pace->second.not_before =
        now.monotonic + std::clamp(wait, kBackfillInterval, kBackfillRetryMax);
    return;
  }
  Entry& entry = jobs_.at(backfill.job);
  const std::string queue_id = answer.ok() ? answer->queue_id : QueueIdIn(answer.status());
  WriteRow(entry, {.job = backfill.job,
                   .nominal = about.nominal,
                   .outcome = has_task ? FiringOutcome::kFired : FiringOutcome::kRefused,
                   .decided_at = now.wall,
                   .queue_id = queue_id,
                   .request_id = core::BackfillRequestId(backfill.job, backfill.id, about.nominal),
                   .detail = absl::StrCat("backfill ", backfill.id, answer.ok() ? "" : ": ",
                                          absl::string_view(answer.status().message()))});
  if (has_task) WatchTask(entry, queue_id);
  ++backfill.done;
  if (backfill.done == backfill.occurrences.size()) return EndBackfill(backfill, now);
  outcome_.changes.emplace_back(backfill);
}

// ---- How tasks end ------------------------------------------------------------------------------

void SchedulerEngine::WatchTask(Entry& entry, const std::string& queue_id) {
  std::vector<std::string>& watched = entry.state.watched;
  const bool is_watched = std::find(watched.begin(), watched.end(), queue_id) != watched.end();
  if (queue_id.empty() || is_watched) return;
  watched.push_back(queue_id);
  if (watched.size() > kWatchedMax) watched.erase(watched.begin());
  watching_.insert(entry.state.job);
  MarkChanged(entry);
}

void SchedulerEngine::OnEnds(OrderId order, const absl::StatusOr<std::vector<TaskEnd>>& answer,
                             core::Moment now) {
  const auto found = orders_.find(order);
  if (found == orders_.end()) return;
  const About about = std::move(found->second);
  orders_.erase(found);
  --calls_;
  NoteLink(order, about.sent_at, answer.status(), now);
  std::map<std::string, TaskEnd> ends;
  if (answer.ok()) {
    for (const TaskEnd& end : *answer) ends[end.queue_id] = end;
  }
  std::vector<std::string> names(watching_.begin(), watching_.end());
  for (const std::string& name : names) {
    if (!answer.ok()) break;
    Entry& entry = jobs_.at(name);
    std::vector<std::string>& watched = entry.state.watched;
    const auto is_over = [&](const std::string& id) {
      if (!about.queue_ids.contains(id)) return false;
      const auto end = ends.find(id);
      // One that the director does not know any more says nothing.
      return end == ends.end() || NoteEnd(entry, end->second);
    };
    if (std::erase_if(watched, is_over) == 0) continue;
    if (watched.empty()) watching_.erase(name);
    MarkChanged(entry);
    PauseAfterFailures(entry, now);
  }
  if (!about.name.empty()) OnEndsBefore(about, answer.status(), now);
}

void SchedulerEngine::PauseAfterFailures(Entry& entry, core::Moment now) {
  const uint32_t most = entry.job.has_value() ? entry.job->pause_after_failures : 0;
  if (most == 0 || entry.state.failures_in_row < most || entry.state.pause.has_value()) return;
  const std::string why = absl::StrCat(entry.state.failures_in_row, " failures in a row");
  Tell("job_paused", entry.state.job, why);
  BeginPause(entry, {.by = "scheduler", .why = why}, now);
  Reschedule(entry, now);
}

bool SchedulerEngine::NoteEnd(Entry& entry, const TaskEnd& end) {
  switch (end.state) {
    case core::TaskState::kPending:
    case core::TaskState::kDispatching:
    case core::TaskState::kWorking:
      return false;
    case core::TaskState::kCompleted:
      entry.state.failures_in_row = 0;
      break;
    case core::TaskState::kFailed:
      // Nothing of it ran because others took its place.
      if (end.reason != core::FailureReason::kCoalesced &&
          end.reason != core::FailureReason::kEvicted) {
        ++entry.state.failures_in_row;
      }
      break;
    case core::TaskState::kCancelled:
      break;
  }
  entry.state.last_run_state = end.state;
  entry.state.last_run_reason = end.reason;
  return true;
}

}  // namespace callboard::scheduler
