// Which requests are issued to the director and to agents, and when.
#include <algorithm>
#include <utility>

#include "libs/base/error.h"
#include "libs/scheduler/engine.h"

namespace callboard::scheduler {

std::vector<SchedulerEngine::PlannedRequest> SchedulerEngine::PlanRequests(
    const Entry& entry) const {
  std::vector<PlannedRequest> requests;
  uint64_t runs = entry.state.runs;
  bool blocked = false;
  for (const auto& [nominal, attempt] : entry.attempts) {
    const bool allowed =
        !entry.job.has_value() || entry.job->max_runs == 0 || runs < entry.job->max_runs;
    // It may become a run before a later attempt does.
    const bool goes_direct = attempt.direct && allowed;
    if (attempt.has_request || attempt.lookup_at.has_value() || goes_direct) ++runs;
    if (attempt.tentative_outcome.has_value()) {
      if (attempt.has_request) continue;
      if (attempt.lookup_at.has_value()) {
        requests.push_back({nominal, RequestContext::Kind::kLookup, *attempt.lookup_at});
      } else if (goes_direct) {
        requests.push_back({nominal, RequestContext::Kind::kStartDirect, attempt.not_before});
      }
      continue;
    }
    if (std::exchange(blocked, true) || attempt.has_request || !entry.job.has_value()) continue;
    if (!allowed) continue;
    const bool needs_statuses = entry.job->pause_after_failures > 0 &&
                                !attempt.prior_statuses_known && !entry.state.tracked_tasks.empty();
    requests.push_back(
        {nominal,
         needs_statuses ? RequestContext::Kind::kTaskStatuses : RequestContext::Kind::kSubmit,
         attempt.not_before});
  }
  return requests;
}

void SchedulerEngine::IssueRequests(ports::Moment now) {
  std::vector<std::pair<Entry*, PlannedRequest>> requests;
  for (const auto& [name, entry] : jobs_with_attempts_) {
    for (const PlannedRequest& request : PlanRequests(*entry)) {
      if (request.at <= now.monotonic) requests.push_back({entry, request});
    }
  }
  for (const auto& [entry, request] : requests) {
    // These go to an agent, so the state of the link to the director does not matter.
    if (request.kind == RequestContext::Kind::kStartDirect) IssueRequest(*entry, request, now);
  }
  if (!link_state_.up) return IssueProbe(now);
  for (const auto& [entry, request] : requests) {
    if (request.kind != RequestContext::Kind::kStartDirect && HasCallCapacity())
      IssueRequest(*entry, request, now);
  }
  IssueBackfillRequests(core::kBackfillsMax, now);
  IssueTriggerLookups(now);
  IssueStatusPoll(now);
}

void SchedulerEngine::IssueProbe(ports::Moment now) {
  if (now.monotonic < link_state_.probe_at) return;
  // While another call hangs, do not probe with a submit, which could hang as well.
  if (director_calls_ > 0 || !IssueFirstDueRequest(now)) {
    const OutgoingRequestId id = RegisterRequest({.kind = RequestContext::Kind::kProbe}, now);
    outcome_.requests.emplace_back(FindTaskRequest{id, std::string(kProbeRequestId)});
  }
  link_state_.probe = last_request_;
  link_state_.probe_at = now.monotonic + kProbeTimeout;
}

bool SchedulerEngine::IssueFirstDueRequest(ports::Moment now) {
  // Lookups come first: the result of a submit could become unknown as well.
  for (const RequestContext::Kind kind :
       {RequestContext::Kind::kLookup, RequestContext::Kind::kTaskStatuses,
        RequestContext::Kind::kSubmit}) {
    for (const auto& [name, entry] : jobs_with_attempts_) {
      for (const PlannedRequest& request : PlanRequests(*entry)) {
        if (request.kind != kind || request.at > now.monotonic) continue;
        IssueRequest(*entry, request, now);
        return true;
      }
    }
  }
  return IssueBackfillRequests(1, now);
}

void SchedulerEngine::IssueRequest(Entry& entry, const PlannedRequest& request, ports::Moment now) {
  const std::string request_id = core::CronRequestId(entry.state.job, request.nominal);
  entry.attempts.at(request.nominal).has_request = true;
  if (request.kind == RequestContext::Kind::kTaskStatuses) {
    return IssueStatusRequest(
        {.kind = request.kind,
         .name = entry.state.job,
         .nominal = request.nominal,
         .queue_ids = {entry.state.tracked_tasks.begin(), entry.state.tracked_tasks.end()}},
        now);
  }
  const OutgoingRequestId id = RegisterRequest(
      {.kind = request.kind, .name = entry.state.job, .nominal = request.nominal}, now);
  if (request.kind == RequestContext::Kind::kLookup) {
    outcome_.requests.emplace_back(FindTaskRequest{id, request_id});
    return;
  }
  core::JobSubmission submission =
      core::MakeJobSubmission(*entry.job, request_id, entry.job->overlap);
  if (request.kind == RequestContext::Kind::kStartDirect) {
    outcome_.requests.emplace_back(
        DirectStartRequest{id, entry.job->agent_url, std::move(submission)});
  } else {
    outcome_.requests.emplace_back(SubmitRequest{id, std::move(submission)});
  }
}

bool SchedulerEngine::IssueBackfillRequests(size_t max_count, ports::Moment now) {
  const size_t before = outcome_.requests.size();
  for (auto& [id, pace] : backfill_paces_) {
    if (max_count == 0 || !HasCallCapacity()) break;
    if (pace.has_request || pace.not_before > now.monotonic) continue;
    const Backfill& backfill = backfills_.at(id);
    const core::Job* job = FindJob(backfill.job);
    if (job == nullptr) continue;
    const absl::Time nominal = backfill.occurrences.at(backfill.done);
    pace.has_request = true;
    --max_count;
    // Each occurrence of a backfill must run, so a waiting one is not replaced by the next.
    const core::OverlapPolicy overlap = job->overlap == core::OverlapPolicy::kAllow
                                            ? core::OverlapPolicy::kAllow
                                            : core::OverlapPolicy::kSkip;
    outcome_.requests.emplace_back(SubmitRequest{
        RegisterRequest({.kind = RequestContext::Kind::kBackfill, .name = id, .nominal = nominal},
                        now),
        core::MakeJobSubmission(*job, core::BackfillRequestId(job->name, id, nominal), overlap)});
  }
  return outcome_.requests.size() > before;
}

void SchedulerEngine::IssueTriggerLookups(ports::Moment now) {
  for (auto next = trigger_lookups_.begin(); next != trigger_lookups_.end() && HasCallCapacity();) {
    const auto lookup = next++;
    if (lookup->second > now.monotonic) continue;
    const auto& [job, trigger] = lookup->first;
    const OutgoingRequestId id =
        RegisterRequest({.kind = RequestContext::Kind::kTriggerLookup,
                         .name = job,
                         .nominal = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall)),
                         .trigger = trigger},
                        now);
    outcome_.requests.emplace_back(FindTaskRequest{id, core::TriggerRequestId(job, trigger)});
    trigger_lookups_.erase(lookup);
  }
}

void SchedulerEngine::IssueStatusPoll(ports::Moment now) {
  if (jobs_with_tracked_tasks_.empty() || !HasCallCapacity() || now.monotonic < next_poll_at_)
    return;
  next_poll_at_ = now.monotonic + kStatusPollPeriod;
  RequestContext context = {.kind = RequestContext::Kind::kTaskStatuses};
  auto job = jobs_with_tracked_tasks_.upper_bound(last_polled_job_);
  for (size_t i = 0;
       i < jobs_with_tracked_tasks_.size() && context.queue_ids.size() < kStatusPollTasksMax;
       ++i, ++job) {
    if (job == jobs_with_tracked_tasks_.end()) job = jobs_with_tracked_tasks_.begin();
    const std::vector<std::string>& tracked = jobs_.at(*job).state.tracked_tasks;
    context.queue_ids.insert(tracked.begin(), tracked.end());
    last_polled_job_ = *job;
  }
  IssueStatusRequest(std::move(context), now);
}

void SchedulerEngine::IssueStatusRequest(RequestContext context, ports::Moment now) {
  TaskStatusRequest request = {.id = {},
                               .queue_ids = {context.queue_ids.begin(), context.queue_ids.end()}};
  request.id = RegisterRequest(std::move(context), now);
  outcome_.requests.emplace_back(std::move(request));
}

OutgoingRequestId SchedulerEngine::RegisterRequest(RequestContext context, ports::Moment now) {
  context.sent_at = now.monotonic;
  if (context.kind != RequestContext::Kind::kStartDirect) ++director_calls_;
  last_request_ = OutgoingRequestId(last_request_.value() + 1);
  requests_.emplace(last_request_, std::move(context));
  return last_request_;
}

void SchedulerEngine::OnRequestAnswer(OutgoingRequestId request,
                                      const absl::StatusOr<AcceptedTask>& answer,
                                      ports::Moment now) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const RequestContext context = std::move(found->second);
  requests_.erase(found);
  if (context.kind != RequestContext::Kind::kStartDirect) {
    --director_calls_;
    UpdateLinkState(request, context.sent_at, answer.status(), now);
  }
  switch (context.kind) {
    case RequestContext::Kind::kSubmit:
      return OnSubmitAnswer(context, answer, now);
    case RequestContext::Kind::kLookup:
      return OnLookupAnswer(context, answer, now);
    case RequestContext::Kind::kStartDirect:
      return OnDirectStartAnswer(context, answer, now);
    case RequestContext::Kind::kTrigger:
      return OnTriggerAnswer(context, answer, now);
    case RequestContext::Kind::kTriggerLookup:
      return OnTriggerLookupAnswer(context, answer, now);
    case RequestContext::Kind::kBackfill:
      return OnBackfillAnswer(context, answer, now);
    case RequestContext::Kind::kTaskStatuses:
    case RequestContext::Kind::kProbe:
      return;
  }
}

void SchedulerEngine::UpdateLinkState(OutgoingRequestId request, absl::Duration sent_at,
                                      const absl::Status& status, ports::Moment now) {
  const SubmitAnswer answer = ClassifyAnswer(status);
  const bool is_unreachable = answer == SubmitAnswer::kNotSent || answer == SubmitAnswer::kUnknown;
  // The call was lost in an outage that has ended.
  if (is_unreachable && sent_at < link_state_.reachable_since) return;
  if (link_state_.reachable == is_unreachable) {
    AddNotice(is_unreachable ? "director_unreachable" : "director_reachable", "",
              std::string(status.message()));
    if (!is_unreachable) link_state_.reachable_since = now.monotonic;
  }
  if (!is_unreachable && answer != SubmitAnswer::kTryLater && answer != SubmitAnswer::kDraining) {
    link_state_ = {.reachable_since = link_state_.reachable_since};
    return;
  }
  link_state_.reachable = !is_unreachable;
  // Calls that fail together count as one failure. After that only the last probe counts.
  if (!std::exchange(link_state_.up, false) && request != link_state_.probe) return;
  const absl::Duration wait =
      std::max(kProbeFirst * (1 << std::min(link_state_.failures++, 10)),
               base::GetErrorDetails(status).retry_after.value_or(kProbeFirst));
  link_state_.probe_at = now.monotonic + std::min(wait, kProbeLast);
}

absl::Duration SchedulerEngine::NextRequestAt() const {
  absl::Duration next = absl::InfiniteDuration();
  const bool is_blocked = !link_state_.up || !HasCallCapacity();
  for (const auto& [name, entry] : jobs_with_attempts_) {
    for (const PlannedRequest& request : PlanRequests(*entry)) {
      if (request.kind == RequestContext::Kind::kStartDirect || !is_blocked)
        next = std::min(next, request.at);
    }
  }
  if (!link_state_.up) return std::min(next, link_state_.probe_at);
  if (!HasCallCapacity()) return next;
  for (const auto& [id, pace] : backfill_paces_) {
    if (!pace.has_request) next = std::min(next, pace.not_before);
  }
  for (const auto& [trigger, lookup_at] : trigger_lookups_) next = std::min(next, lookup_at);
  return jobs_with_tracked_tasks_.empty() ? next : std::min(next, next_poll_at_);
}

}  // namespace callboard::scheduler
