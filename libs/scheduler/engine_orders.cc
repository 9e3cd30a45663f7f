// What is asked of the director, and when.
#include <algorithm>
#include <utility>

#include "libs/base/error.h"
#include "libs/scheduler/engine.h"

namespace callboard::scheduler {
namespace {

// Asks whether the director has a task of that request id, and makes none: whatever the content,
// the answer names the task if there is one.
core::Submission Question(std::string request_id) {
  core::Submission question = {.spec = {}, .policy = core::QueuePolicy::kReject, .ticket = {}};
  question.spec.prompt = "nothing: a question about a request id";
  question.spec.request_id = std::move(request_id);
  question.spec.source = core::TaskSource::kScheduler;
  question.validate_only = true;
  return question;
}

}  // namespace

std::vector<SchedulerEngine::Wish> SchedulerEngine::WishesOf(const Entry& entry) const {
  std::vector<Wish> wishes;
  uint64_t runs = entry.state.runs;
  bool blocked = false;
  for (const auto& [nominal, attempt] : entry.attempts) {
    const bool allowed =
        !entry.job.has_value() || entry.job->max_runs == 0 || runs < entry.job->max_runs;
    // It may count among the runs before one after it does.
    const bool goes_direct = attempt.direct && allowed;
    if (attempt.asked || attempt.settled_at.has_value() || goes_direct) ++runs;
    if (attempt.verdict.has_value()) {
      if (attempt.asked) continue;
      if (attempt.settled_at.has_value()) {
        wishes.push_back({nominal, About::What::kAsk, *attempt.settled_at});
      } else if (goes_direct) {
        wishes.push_back({nominal, About::What::kDirect, attempt.not_before});
      }
      continue;
    }
    if (std::exchange(blocked, true) || attempt.asked || !entry.job.has_value()) continue;
    if (!allowed) continue;
    const bool asks_ends =
        entry.job->pause_after_failures > 0 && !attempt.ends_known && !entry.state.watched.empty();
    wishes.push_back(
        {nominal, asks_ends ? About::What::kEnds : About::What::kSubmit, attempt.not_before});
  }
  return wishes;
}

void SchedulerEngine::GiveOrders(core::Moment now) {
  std::vector<std::pair<Entry*, Wish>> wishes;
  for (const auto& [name, entry] : open_) {
    for (const Wish& wish : WishesOf(*entry)) {
      if (wish.at <= now.monotonic) wishes.push_back({entry, wish});
    }
  }
  for (const auto& [entry, wish] : wishes) {
    // To an agent, because there is no director.
    if (wish.what == About::What::kDirect) GiveOrder(*entry, wish, now);
  }
  if (!link_.up) return GiveProbe(now);
  for (const auto& [entry, wish] : wishes) {
    if (wish.what != About::What::kDirect && HasRoom()) GiveOrder(*entry, wish, now);
  }
  GiveBackfillOrders(core::kBackfillsMax, now);
  AskTriggers(now);
  AskEnds(now);
}

void SchedulerEngine::GiveProbe(core::Moment now) {
  if (now.monotonic < link_.probe_at) return;
  // Next to a call that hangs, a question about nothing: what is submitted now may hang too.
  if (calls_ > 0 || !GiveDueOrder(now)) {
    const OrderId id = NewOrder({.what = About::What::kProbe}, now);
    outcome_.orders.emplace_back(SubmitOrder{id, Question("")});
  }
  link_.probe = last_order_;
  link_.probe_at = now.monotonic + kProbeTimeout;
}

bool SchedulerEngine::GiveDueOrder(core::Moment now) {
  // A question rather than a submit: what is submitted now may end up unknown too.
  for (const About::What what : {About::What::kAsk, About::What::kEnds, About::What::kSubmit}) {
    for (const auto& [name, entry] : open_) {
      for (const Wish& wish : WishesOf(*entry)) {
        if (wish.what != what || wish.at > now.monotonic) continue;
        GiveOrder(*entry, wish, now);
        return true;
      }
    }
  }
  return GiveBackfillOrders(1, now);
}

void SchedulerEngine::GiveOrder(Entry& entry, const Wish& wish, core::Moment now) {
  const std::string request_id = core::CronRequestId(entry.state.job, wish.nominal);
  entry.attempts.at(wish.nominal).asked = true;
  if (wish.what == About::What::kEnds) {
    return AskEndsOf({.what = wish.what,
                      .name = entry.state.job,
                      .nominal = wish.nominal,
                      .queue_ids = {entry.state.watched.begin(), entry.state.watched.end()}},
                     now);
  }
  const OrderId id =
      NewOrder({.what = wish.what, .name = entry.state.job, .nominal = wish.nominal}, now);
  if (wish.what == About::What::kAsk) {
    outcome_.orders.emplace_back(SubmitOrder{id, Question(request_id)});
    return;
  }
  core::Submission submission = core::SubmissionOf(*entry.job, request_id, entry.job->overlap);
  if (wish.what == About::What::kDirect) {
    outcome_.orders.emplace_back(DirectOrder{id, entry.job->agent_url, std::move(submission.spec)});
  } else {
    outcome_.orders.emplace_back(SubmitOrder{id, std::move(submission)});
  }
}

bool SchedulerEngine::GiveBackfillOrders(size_t most, core::Moment now) {
  const size_t before = outcome_.orders.size();
  for (auto& [id, pace] : paces_) {
    if (most == 0 || !HasRoom()) break;
    if (pace.asked || pace.not_before > now.monotonic) continue;
    const Backfill& backfill = backfills_.at(id);
    const core::Job* job = FindJob(backfill.job);
    if (job == nullptr) continue;
    const absl::Time nominal = backfill.occurrences.at(backfill.done);
    pace.asked = true;
    --most;
    // One that waits is not replaced by the next: each is to run.
    const core::OverlapPolicy overlap = job->overlap == core::OverlapPolicy::kAllow
                                            ? core::OverlapPolicy::kAllow
                                            : core::OverlapPolicy::kSkip;
    outcome_.orders.emplace_back(SubmitOrder{
        NewOrder({.what = About::What::kBackfill, .name = id, .nominal = nominal}, now),
        core::SubmissionOf(*job, core::BackfillRequestId(job->name, id, nominal), overlap)});
  }
  return outcome_.orders.size() > before;
}

void SchedulerEngine::AskTriggers(core::Moment now) {
  for (auto next = trigger_asks_.begin(); next != trigger_asks_.end() && HasRoom();) {
    const auto ask = next++;
    if (ask->second > now.monotonic) continue;
    const auto& [job, trigger] = ask->first;
    const OrderId id = NewOrder({.what = About::What::kAskTrigger,
                                 .name = job,
                                 .nominal = absl::FromUnixSeconds(absl::ToUnixSeconds(now.wall)),
                                 .trigger = trigger},
                                now);
    outcome_.orders.emplace_back(SubmitOrder{id, Question(core::TriggerRequestId(job, trigger))});
    trigger_asks_.erase(ask);
  }
}

void SchedulerEngine::AskEnds(core::Moment now) {
  if (watching_.empty() || !HasRoom() || now.monotonic < ask_ends_at_) return;
  ask_ends_at_ = now.monotonic + kAskEndsPeriod;
  About about = {.what = About::What::kEnds};
  auto job = watching_.upper_bound(asked_last_);
  for (size_t i = 0; i < watching_.size() && about.queue_ids.size() < kAskEndsMax; ++i, ++job) {
    if (job == watching_.end()) job = watching_.begin();
    const std::vector<std::string>& watched = jobs_.at(*job).state.watched;
    about.queue_ids.insert(watched.begin(), watched.end());
    asked_last_ = *job;
  }
  AskEndsOf(std::move(about), now);
}

void SchedulerEngine::AskEndsOf(About about, core::Moment now) {
  AskEndsOrder order = {.id = {}, .queue_ids = {about.queue_ids.begin(), about.queue_ids.end()}};
  order.id = NewOrder(std::move(about), now);
  outcome_.orders.emplace_back(std::move(order));
}

OrderId SchedulerEngine::NewOrder(About about, core::Moment now) {
  about.sent_at = now.monotonic;
  if (about.what != About::What::kDirect) ++calls_;
  last_order_ = OrderId(last_order_.value() + 1);
  orders_.emplace(last_order_, std::move(about));
  return last_order_;
}

void SchedulerEngine::OnAccepted(OrderId order, const absl::StatusOr<Accepted>& answer,
                                 core::Moment now) {
  const auto found = orders_.find(order);
  if (found == orders_.end()) return;
  const About about = std::move(found->second);
  orders_.erase(found);
  if (about.what != About::What::kDirect) {
    --calls_;
    NoteLink(order, about.sent_at, answer.status(), now);
  }
  switch (about.what) {
    case About::What::kSubmit:
      return OnAttempt(about, answer, now);
    case About::What::kAsk:
      return OnAsked(about, answer, now);
    case About::What::kDirect:
      return OnDirect(about, answer, now);
    case About::What::kTrigger:
      return OnTriggered(about, answer, now);
    case About::What::kAskTrigger:
      return OnTriggerAsked(about, answer, now);
    case About::What::kBackfill:
      return OnBackfilled(about, answer, now);
    case About::What::kEnds:
    case About::What::kProbe:
      return;
  }
}

void SchedulerEngine::NoteLink(OrderId order, absl::Duration sent_at, const absl::Status& status,
                               core::Moment now) {
  const Answer answer = MeaningOf(status);
  const bool silent = answer == Answer::kNotSent || answer == Answer::kUnknown;
  // It was lost in an outage that is over.
  if (silent && sent_at < link_.back_at) return;
  if (link_.reachable == silent) {
    Tell(silent ? "director_unreachable" : "director_reachable", "", std::string(status.message()));
    if (!silent) link_.back_at = now.monotonic;
  }
  if (!silent && answer != Answer::kNotNow && answer != Answer::kDraining) {
    link_ = {.back_at = link_.back_at};
    return;
  }
  link_.reachable = !silent;
  // Many calls fail together, and count once; then only the last probe counts.
  if (!std::exchange(link_.up, false) && order != link_.probe) return;
  const absl::Duration wait = std::max(kProbeFirst * (1 << std::min(link_.failures++, 10)),
                                       base::DetailsOf(status).retry_after.value_or(kProbeFirst));
  link_.probe_at = now.monotonic + std::min(wait, kProbeLast);
}

absl::Duration SchedulerEngine::NextOrderAt() const {
  absl::Duration next = absl::InfiniteDuration();
  const bool waits_for_link = !link_.up || !HasRoom();
  for (const auto& [name, entry] : open_) {
    for (const Wish& wish : WishesOf(*entry)) {
      if (wish.what == About::What::kDirect || !waits_for_link) next = std::min(next, wish.at);
    }
  }
  if (!link_.up) return std::min(next, link_.probe_at);
  if (!HasRoom()) return next;
  for (const auto& [id, pace] : paces_) {
    if (!pace.asked) next = std::min(next, pace.not_before);
  }
  for (const auto& [trigger, ask_at] : trigger_asks_) next = std::min(next, ask_at);
  return watching_.empty() ? next : std::min(next, ask_ends_at_);
}

}  // namespace callboard::scheduler
