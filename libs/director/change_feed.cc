#include "libs/director/change_feed.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/error.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kTooManyRetryAfter = absl::Seconds(5);

absl::Status TooManyWatchers() {
  return base::WithRetryAfter(
      base::WithReason(
          absl::ResourceExhaustedError(absl::StrCat("too many clients watch tasks (",
                                                    ChangeFeed::kSubscribersMax, "); retry later")),
          "TOO_MANY_WATCHERS", {{"watchers_max", absl::StrCat(ChangeFeed::kSubscribersMax)}}),
      kTooManyRetryAfter);
}

}  // namespace

void ChangeFeed::Begin(uint64_t epoch) {
  Subscribers ready;
  {
    base::MutexLock lock(mutex_);
    epoch_ = epoch;
    // Skips a number, so that no cursor of the previous epoch matches the new one.
    first_ = last_ + 2;
    last_ = first_ - 1;
    touched_.clear();
    for (const auto& [subscriber, subscription] : subscriptions_) {
      subscription->was_reset = true;
      subscription->pending.clear();
      subscription->next = first_;
      if (std::exchange(subscription->wants_notification, false))
        ready.push_back(subscription->subscriber);
    }
  }
  for (const std::shared_ptr<FeedSubscriber>& subscriber : ready) subscriber->OnChanges();
}

void ChangeFeed::Publish(absl::Span<const core::Record> records) {
  Subscribers ready;
  Subscribers too_slow;
  {
    base::MutexLock lock(mutex_);
    for (const core::Record& record : records) {
      if (const auto* task = std::get_if<core::TaskRecord>(&record)) {
        Add(task->queue_id, task->event.number);
      }
    }
    too_slow = RemoveSlowSubscribers();
    ready = TakeReadySubscribers();
  }
  for (const std::shared_ptr<FeedSubscriber>& subscriber : too_slow) subscriber->OnFellBehind();
  for (const std::shared_ptr<FeedSubscriber>& subscriber : ready) subscriber->OnChanges();
}

void ChangeFeed::Add(core::QueueId task, uint64_t event) {
  const Change change = {.number = ++last_, .queue_id = task, .event = event};
  ring_[change.number % ring_.size()] = change;
  if (by_task_.empty()) return;
  const auto subscriber = by_task_.find(task);
  if (subscriber == by_task_.end()) return;
  for (Subscription* subscription : subscriber->second) {
    subscription->pending.push_back(change);
    touched_.push_back(subscription);
  }
}

ChangeFeed::Subscribers ChangeFeed::RemoveSlowSubscribers() {
  std::vector<const FeedSubscriber*> behind;
  for (const Subscription* subscription : for_all_tasks_) {
    if (subscription->next < oldest()) behind.push_back(subscription->subscriber.get());
  }
  for (const Subscription* subscription : touched_) {
    if (subscription->pending.size() > ring_.size())
      behind.push_back(subscription->subscriber.get());
  }
  Subscribers left;
  for (const FeedSubscriber* subscriber : behind) {
    // A subscriber of several tasks may occur more than once.
    const auto found = subscriptions_.find(subscriber);
    if (found == subscriptions_.end()) continue;
    left.push_back(found->second->subscriber);
    Erase(subscriber);
  }
  return left;
}

ChangeFeed::Subscribers ChangeFeed::TakeReadySubscribers() {
  Subscribers ready;
  const auto notify = [&ready](Subscription& subscription) {
    if (std::exchange(subscription.wants_notification, false))
      ready.push_back(subscription.subscriber);
  };
  for (Subscription* subscription : for_all_tasks_) {
    if (subscription->next <= last_) notify(*subscription);
  }
  for (Subscription* subscription : std::exchange(touched_, {})) notify(*subscription);
  return ready;
}

absl::StatusOr<ChangeFeed::SubscribeResult> ChangeFeed::Subscribe(
    std::shared_ptr<FeedSubscriber> subscriber, const std::vector<core::QueueId>& tasks,
    std::optional<FeedCursor> from) {
  base::MutexLock lock(mutex_);
  if (subscriptions_.size() >= kSubscribersMax) return TooManyWatchers();
  const bool resumed = from.has_value() && from->epoch == epoch_ && from->number <= last_ &&
                       from->number + 1 >= oldest();
  const FeedCursor cursor = resumed ? *from : FeedCursor{epoch_, last_};
  const FeedSubscriber* key = subscriber.get();
  auto added =
      std::make_unique<Subscription>(Subscription{std::move(subscriber), tasks, cursor.number + 1});
  std::sort(added->tasks.begin(), added->tasks.end());
  added->tasks.erase(std::unique(added->tasks.begin(), added->tasks.end()), added->tasks.end());
  if (added->is_for_all_tasks()) {
    for_all_tasks_.insert(added.get());
  } else {
    for (uint64_t number = cursor.number + 1; number <= last_; ++number) {
      const Change& change = At(number);
      if (std::binary_search(added->tasks.begin(), added->tasks.end(), change.queue_id)) {
        added->pending.push_back(change);
      }
    }
  }
  for (const core::QueueId& task : added->tasks) by_task_[task].push_back(added.get());
  CHECK(subscriptions_.emplace(key, std::move(added)).second);
  return SubscribeResult{.resumed = resumed, .cursor = cursor};
}

void ChangeFeed::Unsubscribe(const FeedSubscriber& subscriber) {
  base::MutexLock lock(mutex_);
  Erase(&subscriber);
}

void ChangeFeed::Erase(const FeedSubscriber* subscriber) {
  const auto found = subscriptions_.find(subscriber);
  if (found == subscriptions_.end()) return;
  Subscription* subscription = found->second.get();
  for_all_tasks_.erase(subscription);
  for (const core::QueueId& task : subscription->tasks) {
    const auto others = by_task_.find(task);
    std::erase(others->second, subscription);
    if (others->second.empty()) by_task_.erase(others);
  }
  std::erase(touched_, subscription);
  subscriptions_.erase(found);
}

ChangeFeed::ChangeBatch ChangeFeed::TakeChanges(const FeedSubscriber& subscriber,
                                                size_t max_changes) {
  base::MutexLock lock(mutex_);
  ChangeBatch batch = {.cursor = {epoch_, last_}};
  const auto found = subscriptions_.find(&subscriber);
  if (found == subscriptions_.end()) return batch;
  Subscription& subscription = *found->second;
  if (std::exchange(subscription.was_reset, false)) {
    batch.was_reset = true;
    return batch;
  }
  if (subscription.is_for_all_tasks()) {
    for (; subscription.next <= last_ && batch.changes.size() < max_changes; ++subscription.next) {
      batch.changes.push_back(At(subscription.next));
    }
    batch.cursor.number = subscription.next - 1;
  } else {
    while (!subscription.pending.empty() && batch.changes.size() < max_changes) {
      batch.changes.push_back(subscription.pending.front());
      subscription.pending.pop_front();
    }
    // Moves the cursor past changes of other tasks, so that they are not examined again.
    if (!subscription.pending.empty())
      batch.cursor.number = subscription.pending.front().number - 1;
  }
  subscription.wants_notification = batch.changes.empty();
  return batch;
}

}  // namespace callboard::director
