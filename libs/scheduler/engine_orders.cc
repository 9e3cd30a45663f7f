// Which orders are issued to the director and to agents, and when.
#include <algorithm>
#include <utility>

#include "libs/base/error.h"
#include "libs/scheduler/engine.h"

namespace callboard::scheduler {
namespace {

// Returns a submission that finds out whether the director has a task with that request id. It
// creates no task. Whatever its content, the answer names the task if there is one.
core::Submission MakeLookup(std::string request_id) {
  core::Submission lookup = {.spec = {}, .policy = core::QueuePolicy::kReject, .ticket = {}};
  lookup.spec.prompt = "nothing: a question about a request id";
  lookup.spec.request_id = std::move(request_id);
  lookup.spec.source = core::TaskSource::kScheduler;
  lookup.validate_only = true;
  return lookup;
}

}  // namespace

std::vector<SchedulerEngine::PlannedOrder> SchedulerEngine::PlanOrders(const Entry& entry) const {
  std::vector<PlannedOrder> orders;
  uint64_t runs = entry.state.runs;
  bool blocked = false;
  for (const auto& [nominal, attempt] : entry.attempts) {
    const bool allowed =
        !entry.job.has_value() || entry.job->max_runs == 0 || runs < entry.job->max_runs;
    // It may become a run before a later attempt does.
    const bool goes_direct = attempt.direct && allowed;
    if (attempt.has_order || attempt.lookup_at.has_value() || goes_direct) ++runs;
    if (attempt.tentative_outcome.has_value()) {
      if (attempt.has_order) continue;
      if (attempt.lookup_at.has_value()) {
        orders.push_back({nominal, OrderContext::Kind::kLookup, *attempt.lookup_at});
      } else if (goes_direct) {
        orders.push_back({nominal, OrderContext::Kind::kStartDirect, attempt.not_before});
      }
      continue;
    }
    if (std::exchange(blocked, true) || attempt.has_order || !entry.job.has_value()) continue;
    if (!allowed) continue;
    const bool needs_statuses = entry.job->pause_after_failures > 0 &&
                                !attempt.prior_statuses_known && !entry.state.tracked_tasks.empty();
    orders.push_back(
        {nominal, needs_statuses ? OrderContext::Kind::kTaskStatuses : OrderContext::Kind::kSubmit,
         attempt.not_before});
  }
  return orders;
}

void SchedulerEngine::IssueOrders(ports::Moment now) {
  std::vector<std::pair<Entry*, PlannedOrder>> orders;
  for (const auto& [name, entry] : jobs_with_attempts_) {
    for (const PlannedOrder& order : PlanOrders(*entry)) {
      if (order.at <= now.monotonic) orders.push_back({entry, order});
    }
  }
  for (const auto& [entry, order] : orders) {
    // These go to an agent, so the state of the link to the director does not matter.
    if (order.kind == OrderContext::Kind::kStartDirect) IssueOrder(*entry, order, now);
  }
  if (!link_state_.up) return IssueProbe(now);
  for (const auto& [entry, order] : orders) {
    if (order.kind != OrderContext::Kind::kStartDirect && HasCallCapacity())
      IssueOrder(*entry, order, now);
  }
  IssueBackfillOrders(core::kBackfillsMax, now);
  IssueTriggerLookups(now);
  IssueStatusPoll(now);
}

void SchedulerEngine::IssueProbe(ports::Moment now) {
  if (now.monotonic < link_state_.probe_at) return;
  // While another call hangs, probe with an empty lookup: a submit could hang as well.
  if (director_calls_ > 0 || !IssueFirstDueOrder(now)) {
    const OrderId id = RegisterOrder({.kind = OrderContext::Kind::kProbe}, now);
    outcome_.orders.emplace_back(SubmitOrder{id, MakeLookup("")});
  }
  link_state_.probe = last_order_;
  link_state_.probe_at = now.monotonic + kProbeTimeout;
}

bool SchedulerEngine::IssueFirstDueOrder(ports::Moment now) {
  // Lookups come first: the result of a submit could become unknown as well.
  for (const OrderContext::Kind kind :
       {OrderContext::Kind::kLookup, OrderContext::Kind::kTaskStatuses,
        OrderContext::Kind::kSubmit}) {
    for (const auto& [name, entry] : jobs_with_attempts_) {
      for (const PlannedOrder& order : PlanOrders(*entry)) {
        if (order.kind != kind || order.at > now.monotonic) continue;
        IssueOrder(*entry, order, now);
        return true;
      }
    }
  }
  return IssueBackfillOrders(1, now);
}

void SchedulerEngine::IssueOrder(Entry& entry, const PlannedOrder& order, ports::Moment now) {
  const std::string request_id = core::CronRequestId(entry.state.job, order.nominal);
  entry.attempts.at(order.nominal).has_order = true;
  if (order.kind == OrderContext::Kind::kTaskStatuses) {
    return IssueStatusOrder(
        {.kind = order.kind,
         .name = entry.state.job,
         .nominal = order.nominal,
         .queue_ids = {entry.state.tracked_tasks.begin(), entry.state.tracked_tasks.end()}},
        now);
  }
  const OrderId id =
      RegisterOrder({.kind = order.kind, .name = entry.state.job, .nominal = order.nominal}, now);
  if (order.kind == OrderContext::Kind::kLookup) {
    outcome_.orders.emplace_back(SubmitOrder{id, MakeLookup(request_id)});
    return;
  }
  core::Submission submission = core::MakeJobSubmission(*entry.job, request_id, entry.job->overlap);
  if (order.kind == OrderContext::Kind::kStartDirect) {
    outcome_.orders.emplace_back(
        DirectStartOrder{id, entry.job->agent_url, std::move(submission.spec)});
  } else {
    outcome_.orders.emplace_back(SubmitOrder{id, std::move(submission)});
  }
}

bool SchedulerEngine::IssueBackfillOrders(size_t max_count, ports::Moment now) {
  const size_t before = outcome_.orders.size();
  for (auto& [id, pace] : backfill_paces_) {
    if (max_count == 0 || !HasCallCapacity()) break;
    if (pace.has_order || pace.not_before > now.monotonic) continue;
    const Backfill& backfill = backfills_.at(id);
    const core::Job* job = FindJob(backfill.job);
    if (job == nullptr) continue;
    const absl::Time nominal = backfill.occurrences.at(backfill.done);
    pace.has_order = true;
    --max_count;
    // Each occurrence of a backfill must run, so a waiting one is not replaced by the next.
    const core::OverlapPolicy overlap = job->overlap == core::OverlapPolicy::kAllow
                                            ? core::OverlapPolicy::kAllow
                                            : core::OverlapPolicy::kSkip;
    outcome_.orders.emplace_back(SubmitOrder{
        RegisterOrder({.kind = OrderContext::Kind::kBackfill, .name = id, .nominal = nominal}, now),
        core::MakeJobSubmission(*job, core::BackfillRequestId(job->name, id, nominal), overlap)});
  }
  return outcome_.orders.size() > before;
}

void SchedulerEngine::IssueTriggerLookups(ports::Moment now) {
  for (auto next = trigger_lookups_.begin(); next != trigger_lookups_.end() && HasCallCapacity();) {
    const auto lookup = next++;
    if (lookup->second > now.monotonic) continue;
    const auto& [job, trigger] = lookup->first;
    const OrderId id =
        RegisterOrder({.kind = OrderContext::Kind::kTriggerLookup,
                       .name = job,
                       .nominal = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall)),
                       .trigger = trigger},
                      now);
    outcome_.orders.emplace_back(SubmitOrder{id, MakeLookup(core::TriggerRequestId(job, trigger))});
    trigger_lookups_.erase(lookup);
  }
}

void SchedulerEngine::IssueStatusPoll(ports::Moment now) {
  if (jobs_with_tracked_tasks_.empty() || !HasCallCapacity() || now.monotonic < next_poll_at_)
    return;
  next_poll_at_ = now.monotonic + kStatusPollPeriod;
  OrderContext context = {.kind = OrderContext::Kind::kTaskStatuses};
  auto job = jobs_with_tracked_tasks_.upper_bound(last_polled_job_);
  for (size_t i = 0;
       i < jobs_with_tracked_tasks_.size() && context.queue_ids.size() < kStatusPollTasksMax;
       ++i, ++job) {
    if (job == jobs_with_tracked_tasks_.end()) job = jobs_with_tracked_tasks_.begin();
    const std::vector<std::string>& tracked = jobs_.at(*job).state.tracked_tasks;
    context.queue_ids.insert(tracked.begin(), tracked.end());
    last_polled_job_ = *job;
  }
  IssueStatusOrder(std::move(context), now);
}

void SchedulerEngine::IssueStatusOrder(OrderContext context, ports::Moment now) {
  TaskStatusOrder order = {.id = {},
                           .queue_ids = {context.queue_ids.begin(), context.queue_ids.end()}};
  order.id = RegisterOrder(std::move(context), now);
  outcome_.orders.emplace_back(std::move(order));
}

OrderId SchedulerEngine::RegisterOrder(OrderContext context, ports::Moment now) {
  context.sent_at = now.monotonic;
  if (context.kind != OrderContext::Kind::kStartDirect) ++director_calls_;
  last_order_ = OrderId(last_order_.value() + 1);
  orders_.emplace(last_order_, std::move(context));
  return last_order_;
}

void SchedulerEngine::OnOrderAnswer(OrderId order, const absl::StatusOr<AcceptedTask>& answer,
                                    ports::Moment now) {
  const auto found = orders_.find(order);
  if (found == orders_.end()) return;
  const OrderContext context = std::move(found->second);
  orders_.erase(found);
  if (context.kind != OrderContext::Kind::kStartDirect) {
    --director_calls_;
    UpdateLinkState(order, context.sent_at, answer.status(), now);
  }
  switch (context.kind) {
    case OrderContext::Kind::kSubmit:
      return OnSubmitAnswer(context, answer, now);
    case OrderContext::Kind::kLookup:
      return OnLookupAnswer(context, answer, now);
    case OrderContext::Kind::kStartDirect:
      return OnDirectStartAnswer(context, answer, now);
    case OrderContext::Kind::kTrigger:
      return OnTriggerAnswer(context, answer, now);
    case OrderContext::Kind::kTriggerLookup:
      return OnTriggerLookupAnswer(context, answer, now);
    case OrderContext::Kind::kBackfill:
      return OnBackfillAnswer(context, answer, now);
    case OrderContext::Kind::kTaskStatuses:
    case OrderContext::Kind::kProbe:
      return;
  }
}

void SchedulerEngine::UpdateLinkState(OrderId order, absl::Duration sent_at,
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
  if (!std::exchange(link_state_.up, false) && order != link_state_.probe) return;
  const absl::Duration wait =
      std::max(kProbeFirst * (1 << std::min(link_state_.failures++, 10)),
               base::GetErrorDetails(status).retry_after.value_or(kProbeFirst));
  link_state_.probe_at = now.monotonic + std::min(wait, kProbeLast);
}

absl::Duration SchedulerEngine::NextOrderAt() const {
  absl::Duration next = absl::InfiniteDuration();
  const bool is_blocked = !link_state_.up || !HasCallCapacity();
  for (const auto& [name, entry] : jobs_with_attempts_) {
    for (const PlannedOrder& order : PlanOrders(*entry)) {
      if (order.kind == OrderContext::Kind::kStartDirect || !is_blocked)
        next = std::min(next, order.at);
    }
  }
  if (!link_state_.up) return std::min(next, link_state_.probe_at);
  if (!HasCallCapacity()) return next;
  for (const auto& [id, pace] : backfill_paces_) {
    if (!pace.has_order) next = std::min(next, pace.not_before);
  }
  for (const auto& [trigger, lookup_at] : trigger_lookups_) next = std::min(next, lookup_at);
  return jobs_with_tracked_tasks_.empty() ? next : std::min(next, next_poll_at_);
}

}  // namespace callboard::scheduler
