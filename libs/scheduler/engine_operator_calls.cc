// Calls by operators (triggers, pauses, backfills), and the ends of tasks.
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

// Checks the id of a trigger or a backfill.
absl::Status CheckCallName(absl::string_view field, const std::string& name) {
  const absl::Status status = core::CheckName(name, core::kCallNameBytesMax, field);
  return status.ok() ? status : base::InvalidField(field, status.message());
}

}  // namespace

absl::StatusOr<SchedulerEngine::Entry*> SchedulerEngine::FindEntry(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || !found->second.job.has_value()) return JobNotFound(name);
  return &found->second;
}

// ---- Triggers -----------------------------------------------------------------------------------

void SchedulerEngine::Trigger(TriggerCallId call, const TriggerQuery& query, ports::Moment now) {
  const absl::StatusOr<Entry*> entry = FindEntry(query.job);
  const absl::Status status = entry.ok() ? CheckCallName("trigger_id", query.id) : entry.status();
  if (!status.ok()) {
    outcome_.trigger_answers.push_back({call, status});
    return;
  }
  const core::Job& job = *(*entry)->job;
  const core::OverlapPolicy overlap = query.force ? core::OverlapPolicy::kAllow : job.overlap;
  OpenTrigger(**entry, query.id, now);
  const OutgoingRequestId id =
      RegisterRequest({.kind = RequestContext::Kind::kTrigger,
                       .name = job.name,
                       .nominal = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall)),
                       .trigger = query.id,
                       .call = call},
                      now);
  outcome_.requests.emplace_back(SubmitRequest{
      id, core::MakeJobSubmission(job, core::TriggerRequestId(job.name, query.id), overlap)});
}

void SchedulerEngine::OpenTrigger(Entry& entry, const std::string& id, ports::Moment now) {
  std::vector<std::string>& open = entry.state.open_triggers;
  if (std::find(open.begin(), open.end(), id) == open.end()) {
    if (open.size() == kOpenTriggersMax) CloseTrigger(entry, std::string(open.front()));
    open.push_back(id);
    MarkChanged(entry);
  }
  trigger_lookups_[{entry.state.job, id}] = now.monotonic + kCallTimeout;
}

void SchedulerEngine::CloseTrigger(Entry& entry, const std::string& id) {
  trigger_lookups_.erase({entry.state.job, id});
  if (std::erase(entry.state.open_triggers, id) > 0) MarkChanged(entry);
}

void SchedulerEngine::OnTriggerAnswer(const RequestContext& context,
                                      const absl::StatusOr<AcceptedTask>& answer,
                                      ports::Moment now) {
  if (const auto found = jobs_.find(context.name); found != jobs_.end()) {
    WriteTriggerRow(found->second, context, answer, now);
  }
  absl::StatusOr<AcceptedTask> reply = answer;
  if (ClassifyAnswer(answer.status()) == SubmitAnswer::kUnknown) {
    reply = base::WithRetryAfter(
        base::WithReason(absl::UnavailableError(absl::StrCat(
                             "the director did not answer; retry with the same trigger_id (",
                             absl::string_view(answer.status().message()), ")")),
                         kDirectorUnreachable),
        kProbeFirst);
  }
  outcome_.trigger_answers.push_back({context.call, std::move(reply)});
}

void SchedulerEngine::WriteTriggerRow(Entry& entry, const RequestContext& context,
                                      const absl::StatusOr<AcceptedTask>& answer,
                                      ports::Moment now) {
  JobState& state = entry.state;
  const std::string queue_id = answer.ok() ? answer->queue_id : QueueIdFrom(answer.status());
  FiringOutcome outcome = FiringOutcome::kFired;
  switch (ClassifyAnswer(answer.status())) {
    case SubmitAnswer::kAccepted:
    case SubmitAnswer::kIdReused: {
      CloseTrigger(entry, context.trigger);
      std::vector<std::string>& triggered = state.triggered_tasks;
      const bool has_row =
          std::find(triggered.begin(), triggered.end(), queue_id) != triggered.end();
      if (has_row) return;
      triggered.push_back(queue_id);
      if (triggered.size() > kTriggeredTasksMax) triggered.erase(triggered.begin());
      break;
    }
    case SubmitAnswer::kOverlap:
      outcome = FiringOutcome::kSkippedOverlap;
      break;
    case SubmitAnswer::kFull:
      outcome = FiringOutcome::kSkippedQueueFull;
      break;
    case SubmitAnswer::kDraining:
    case SubmitAnswer::kTryLater:
    case SubmitAnswer::kNotSent:
      outcome = FiringOutcome::kSkippedDirectorDown;
      break;
    case SubmitAnswer::kRejected:
      outcome = FiringOutcome::kRejected;
      break;
    case SubmitAnswer::kUnknown:
      // It may have a task; IssueTriggerLookups() finds out.
      return;
  }
  WriteRow(entry, {.job = state.job,
                   .nominal = context.nominal,
                   .trigger = context.trigger,
                   .outcome = outcome,
                   .decided_at = now.wall,
                   .queue_id = queue_id,
                   .request_id = core::TriggerRequestId(state.job, context.trigger),
                   .detail = absl::StrCat("trigger ", context.trigger, answer.ok() ? "" : ": ",
                                          absl::string_view(answer.status().message()))});
  if (core::HasTask(outcome)) TrackTask(entry, queue_id);
}

void SchedulerEngine::OnTriggerLookupAnswer(const RequestContext& context,
                                            const absl::StatusOr<AcceptedTask>& answer,
                                            ports::Moment now) {
  const auto found = jobs_.find(context.name);
  if (found == jobs_.end()) return;
  const LookupAnswer meaning = ClassifyLookup(answer.status());
  if (meaning == LookupAnswer::kFound) return WriteTriggerRow(found->second, context, answer, now);
  const std::pair trigger(context.name, context.trigger);
  // The trigger was repeated in the meantime, which scheduled another lookup.
  if (trigger_lookups_.contains(trigger)) return;
  if (meaning == LookupAnswer::kUnused) return CloseTrigger(found->second, context.trigger);
  trigger_lookups_[trigger] = now.monotonic + kLookupRetryDelay;
}

// ---- Pauses -------------------------------------------------------------------------------------

absl::Status SchedulerEngine::PauseJob(const std::string& name, Pause pause, ports::Moment now) {
  const absl::StatusOr<Entry*> entry = FindEntry(name);
  if (!entry.ok()) return entry.status();
  if (pause.until <= now.wall) {
    return base::InvalidField("until", "until must be in the future");
  }
  DetectClockStep(now);
  // Earlier occurrences are not part of the pause.
  DecideDue(**entry, now);
  BeginPause(**entry, std::move(pause), now);
  Reschedule(**entry, now);
  return absl::OkStatus();
}

void SchedulerEngine::BeginPause(Entry& entry, Pause pause, ports::Moment now) {
  JobState& state = entry.state;
  pause.since = now.wall;
  pause.skipped = 0;
  if (state.pause.has_value()) {
    pause.since = state.pause->since;
    pause.skipped = state.pause->skipped;
  }
  state.pause = std::move(pause);
  for (auto& [nominal, attempt] : entry.attempts) attempt.direct_starts = kDirectStartsMax;
  SetTentativeOutcomes(entry, {FiringOutcome::kPaused}, now);
  MarkChanged(entry);
}

absl::StatusOr<uint64_t> SchedulerEngine::ResumeJob(const std::string& name, ports::Moment now) {
  const absl::StatusOr<Entry*> entry = FindEntry(name);
  if (!entry.ok()) return entry.status();
  DetectClockStep(now);
  const uint64_t skipped = (*entry)->state.pause.has_value() ? EndPause(**entry, now) : 0;
  Reschedule(**entry, now);
  return skipped;
}

uint64_t SchedulerEngine::EndPause(Entry& entry, ports::Moment now) {
  // Occurrences during the pause do not run.
  DecideDue(entry, now);
  const uint64_t skipped = entry.state.pause->skipped;
  entry.state.pause.reset();
  entry.state.failures_in_row = 0;
  MarkChanged(entry);
  return skipped;
}

// ---- Backfills ----------------------------------------------------------------------------------

absl::StatusOr<Backfill> SchedulerEngine::StartBackfill(const BackfillQuery& query,
                                                        ports::Moment now) {
  const absl::StatusOr<Entry*> entry = FindEntry(query.job);
  if (!entry.ok()) return entry.status();
  absl::Status status = CheckCallName("backfill_id", query.id);
  if (!status.ok()) return status;
  if (const auto known = backfills_.find(query.id); known != backfills_.end()) {
    const Backfill& same = known->second;
    if (same.job == query.job && same.from == query.from && same.until == query.until) return same;
    return base::WithReason(
        absl::AlreadyExistsError(absl::StrCat("backfill ", base::EscapeForError(query.id),
                                              " is for another job or time range")),
        "BACKFILL_ID_REUSED");
  }
  Backfill backfill = {.id = query.id,
                       .job = query.job,
                       .by = query.by,
                       .from = query.from,
                       .until = query.until,
                       .began_at = now.wall};
  // Occurrences after the cursor are not part of a backfill: the schedule will run them.
  const absl::Time last = std::min(query.until - absl::Nanoseconds(1), (*entry)->state.cursor);
  for (auto next = core::NextOccurrence(*(*entry)->job, query.from - absl::Nanoseconds(1));
       next.has_value() && next->at <= last;
       next = core::NextOccurrence(*(*entry)->job, next->at)) {
    if (!next->Fires() || (*entry)->attempts.contains(next->at)) continue;
    if (backfill.occurrences.size() == core::kBackfillOccurrencesMax) {
      return base::WithReason(absl::InvalidArgumentError(absl::StrCat(
                                  "there are more than ", core::kBackfillOccurrencesMax,
                                  " occurrences; choose a shorter time range")),
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
    backfill_paces_[query.id] = {.not_before = now.monotonic};
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

void SchedulerEngine::EndBackfill(Backfill& backfill, ports::Moment now) {
  backfill.ended_at = now.wall;
  backfill_paces_.erase(backfill.id);
  outcome_.changes.emplace_back(backfill);
  AddNotice("backfill_ended", backfill.job,
            absl::StrCat(backfill.id, ": ", backfill.done, " of ", backfill.occurrences.size()));
}

void SchedulerEngine::OnBackfillAnswer(const RequestContext& context,
                                       const absl::StatusOr<AcceptedTask>& answer,
                                       ports::Moment now) {
  const auto pace = backfill_paces_.find(context.name);
  if (pace == backfill_paces_.end()) return;
  Backfill& backfill = backfills_.at(context.name);
  const SubmitAnswer meaning = ClassifyAnswer(answer.status());
  pace->second = {.not_before = now.monotonic + kBackfillInterval};
  const bool has_task = meaning == SubmitAnswer::kAccepted || meaning == SubmitAnswer::kIdReused;
  if (!has_task && meaning != SubmitAnswer::kRejected) {
    // A backfill has no deadline: it retries until it succeeds.
    const absl::Duration wait =
        base::GetErrorDetails(answer.status()).retry_after.value_or(kBackfillInterval);
    pace->second.not_before =
        now.monotonic + std::clamp(wait, kBackfillInterval, kBackfillRetryMax);
    return;
  }
  Entry& entry = jobs_.at(backfill.job);
  const std::string queue_id = answer.ok() ? answer->queue_id : QueueIdFrom(answer.status());
  WriteRow(entry,
           {.job = backfill.job,
            .nominal = context.nominal,
            .outcome = has_task ? FiringOutcome::kFired : FiringOutcome::kRejected,
            .decided_at = now.wall,
            .queue_id = queue_id,
            .request_id = core::BackfillRequestId(backfill.job, backfill.id, context.nominal),
            .detail = absl::StrCat("backfill ", backfill.id, answer.ok() ? "" : ": ",
                                   absl::string_view(answer.status().message()))});
  if (has_task) TrackTask(entry, queue_id);
  ++backfill.done;
  if (backfill.done == backfill.occurrences.size()) return EndBackfill(backfill, now);
  outcome_.changes.emplace_back(backfill);
}

// ---- Ends of tasks ------------------------------------------------------------------------------

void SchedulerEngine::TrackTask(Entry& entry, const std::string& queue_id) {
  std::vector<std::string>& tracked = entry.state.tracked_tasks;
  const bool is_tracked = std::find(tracked.begin(), tracked.end(), queue_id) != tracked.end();
  if (queue_id.empty() || is_tracked) return;
  tracked.push_back(queue_id);
  if (tracked.size() > kTrackedTasksMax) tracked.erase(tracked.begin());
  jobs_with_tracked_tasks_.insert(entry.state.job);
  MarkChanged(entry);
}

void SchedulerEngine::OnTaskStatuses(OutgoingRequestId request,
                                     const absl::StatusOr<std::vector<TaskStatus>>& answer,
                                     ports::Moment now) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const RequestContext context = std::move(found->second);
  requests_.erase(found);
  --director_calls_;
  UpdateLinkState(request, context.sent_at, answer.status(), now);
  std::map<std::string, TaskStatus> ends;
  if (answer.ok()) {
    for (const TaskStatus& end : *answer) ends[end.queue_id] = end;
  }
  std::vector<std::string> names(jobs_with_tracked_tasks_.begin(), jobs_with_tracked_tasks_.end());
  for (const std::string& name : names) {
    if (!answer.ok()) break;
    Entry& entry = jobs_.at(name);
    std::vector<std::string>& tracked = entry.state.tracked_tasks;
    const auto has_ended = [&](const std::string& id) {
      if (!context.queue_ids.contains(id)) return false;
      const auto end = ends.find(id);
      // The director has forgotten the task, so its end will never be known.
      return end == ends.end() || RecordTaskEnd(entry, end->second);
    };
    if (std::erase_if(tracked, has_ended) == 0) continue;
    if (tracked.empty()) jobs_with_tracked_tasks_.erase(name);
    MarkChanged(entry);
    PauseAfterFailures(entry, now);
  }
  if (!context.name.empty()) OnPriorTaskStatuses(context, answer.status(), now);
}

void SchedulerEngine::PauseAfterFailures(Entry& entry, ports::Moment now) {
  const uint32_t limit = entry.job.has_value() ? entry.job->pause_after_failures : 0;
  if (limit == 0 || entry.state.failures_in_row < limit || entry.state.pause.has_value()) return;
  const std::string why = absl::StrCat(entry.state.failures_in_row, " failures in a row");
  AddNotice("job_paused", entry.state.job, why);
  BeginPause(entry, {.by = "scheduler", .why = why}, now);
  Reschedule(entry, now);
}

bool SchedulerEngine::RecordTaskEnd(Entry& entry, const TaskStatus& end) {
  switch (end.state) {
    case core::LifecycleState::kPending:
    case core::LifecycleState::kDispatching:
    case core::LifecycleState::kWorking:
      return false;
    case core::LifecycleState::kCompleted:
      entry.state.failures_in_row = 0;
      break;
    case core::LifecycleState::kFailed:
      // Another task replaced it before it ran, so it is not a failure of the job.
      if (end.reason != core::FailureReason::kCoalesced &&
          end.reason != core::FailureReason::kEvicted) {
        ++entry.state.failures_in_row;
      }
      break;
    case core::LifecycleState::kCancelled:
      break;
  }
  entry.state.last_run_state = end.state;
  entry.state.last_run_reason = end.reason;
  return true;
}

}  // namespace callboard::scheduler
