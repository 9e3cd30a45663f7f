#ifndef CALLBOARD_LIBS_DIRECTOR_CHANGE_FEED_H_
#define CALLBOARD_LIBS_DIRECTOR_CHANGE_FEED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::director {

// A position in the feed: after change `number` of this epoch of the director.
struct FeedCursor {
  uint64_t epoch = 0;
  uint64_t number = 0;

  friend bool operator==(const FeedCursor&, const FeedCursor&) = default;
};

// A notice that a task has changed. The event itself, with this number, is in the store.
struct Change {
  uint64_t number = 0;
  core::QueueId queue_id = {};
  uint64_t event = 0;

  friend bool operator==(const Change&, const Change&) = default;
};

// A subscriber of the feed. The feed calls it on the publishing thread, which it must not block.
class FeedSubscriber {
 public:
  virtual ~FeedSubscriber() = default;

  // Changes are available. Not called again until TakeChanges() has returned an empty batch.
  virtual void OnChanges() = 0;
  // The subscriber was too slow: its next changes are no longer in memory. The subscription has
  // ended.
  virtual void OnFellBehind() = 0;
};

// Distributes recent changes of tasks to subscribers. Holds the last `capacity` changes,
// independent of the speed of subscribers. A change costs nothing for subscribers of other tasks.
//
// Thread-safe. Calls subscribers without holding a lock.
class ChangeFeed {
 public:
  static constexpr size_t kCapacity = 10'000;
  static constexpr size_t kSubscribersMax = 1000;

  explicit ChangeFeed(size_t capacity = kCapacity) : ring_(capacity) {}
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // Starts a new epoch because a store was opened. Everything before it is void.
  void Begin(uint64_t epoch);
  // REQUIRES: the records are on disk.
  void Publish(absl::Span<const core::Record> records);

  struct SubscribeResult {
    // True if the subscription continues at the requested cursor. Otherwise changes since then are
    // lost.
    bool resumed = false;
    FeedCursor cursor = {};
  };
  // Subscribes to these tasks, or to all tasks if `tasks` is empty, from after `from`; from now on
  // if `from` is absent or no longer known. Error: RESOURCE_EXHAUSTED/TOO_MANY_WATCHERS.
  absl::StatusOr<SubscribeResult> Subscribe(std::shared_ptr<FeedSubscriber> subscriber,
                                            const std::vector<core::QueueId>& tasks,
                                            std::optional<FeedCursor> from);
  // Does nothing if `subscriber` is not subscribed. A callback that is under way may still arrive.
  void Unsubscribe(const FeedSubscriber& subscriber);

  struct ChangeBatch {
    // A store was opened again: earlier changes are void, and this batch is empty.
    bool was_reset = false;
    std::vector<Change> changes = {};
    // The position after this batch.
    FeedCursor cursor = {};
  };
  // Returns the next changes, at most `max_changes`. After an empty batch the feed calls
  // OnChanges() when there is a new change.
  ChangeBatch TakeChanges(const FeedSubscriber& subscriber, size_t max_changes);

 private:
  struct Subscription {
    // Shared, because a subscriber may unsubscribe while it is being called.
    std::shared_ptr<FeedSubscriber> subscriber;
    // Sorted; empty for a subscription to all tasks.
    std::vector<core::QueueId> tasks;
    // For a subscription to all tasks: number of the next change. For others: `pending` holds the
    // changes that were not taken yet.
    uint64_t next = 0;
    std::deque<Change> pending = {};
    bool wants_notification = false;
    bool was_reset = false;

    bool is_for_all_tasks() const { return tasks.empty(); }
  };

  const Change& At(uint64_t number) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ring_[number % ring_.size()];
  }
  uint64_t oldest() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return std::max(first_, last_ < ring_.size() ? 1 : last_ - ring_.size() + 1);
  }
  void Add(core::QueueId task, uint64_t event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const FeedSubscriber* subscriber) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Subscribers to call now.
  using Subscribers = std::vector<std::shared_ptr<FeedSubscriber>>;
  Subscribers TakeReadySubscribers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Subscribers RemoveSlowSubscribers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last changes, at index number % size; the number of the last change; the first number of
  // this epoch.
  std::vector<Change> ring_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<const FeedSubscriber*, std::unique_ptr<Subscription>> subscriptions_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Subscription*> for_all_tasks_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<core::QueueId, std::vector<Subscription*>> by_task_ ABSL_GUARDED_BY(mutex_);
  // Subscriptions to single tasks that got a change since the last TakeReadySubscribers().
  std::vector<Subscription*> touched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_CHANGE_FEED_H_
