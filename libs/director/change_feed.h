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

// A place in the feed: right behind the change of that number, in that epoch of the director.
struct FeedPlace {
  uint64_t epoch = 0;
  uint64_t number = 0;

  friend bool operator==(const FeedPlace&, const FeedPlace&) = default;
};

// That something happened to a task. What it was is in the store, in the task's event of that
// number.
struct Change {
  uint64_t number = 0;
  core::QueueId queue_id = {};
  uint64_t event = 0;

  friend bool operator==(const Change&, const Change&) = default;
};

// Somebody who follows the feed. Told on the thread that publishes, which it must not block.
class Follower {
 public:
  virtual ~Follower() = default;

  // There is something to take. Told again only once Take() has found nothing.
  virtual void OnChanges() = 0;
  // What it would have to take next is forgotten, because it did not take it in time. It follows no
  // more.
  virtual void OnLeftBehind() = 0;
};

// What has happened to tasks lately, for all who want to follow it. Holds names only, the last
// `kept` of them, however fast or slow anybody follows; what happens to a task costs nothing to
// those who follow others.
//
// Thread-safe. Followers are told with no lock held.
class ChangeFeed {
 public:
  static constexpr size_t kKept = 10'000;
  static constexpr size_t kFollowersMax = 1000;

  explicit ChangeFeed(size_t kept = kKept) : ring_(kept) {}
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // A store was opened: what was known of it before is void.
  void Begin(uint64_t epoch);
  // REQUIRES: the records are on disk.
  void Publish(absl::Span<const core::Record> records);

  struct Followed {
    // Whether it goes on from where it wanted to; else what happened since is not known.
    bool resumed = false;
    FeedPlace place = {};
  };
  // From now on follows these tasks, or all when there are none: from behind `from` on, or else
  // from now on. RESOURCE_EXHAUSTED/TOO_MANY_WATCHERS.
  absl::StatusOr<Followed> Follow(std::shared_ptr<Follower> follower,
                                  const std::vector<core::QueueId>& tasks,
                                  std::optional<FeedPlace> from);
  // Does nothing to one that does not follow. It may be told something that is under way already.
  void Unfollow(const Follower& follower);

  struct Taken {
    // The store was opened anew: what was taken before is void, and there are no changes.
    bool began_anew = false;
    std::vector<Change> changes = {};
    // Behind all that was taken.
    FeedPlace place = {};
  };
  // The next changes, at most so many; when there are none, it is told of the next one.
  Taken Take(const Follower& follower, size_t most);

 private:
  struct Following {
    // Shared: it may leave while it is told something.
    std::shared_ptr<Follower> follower;
    // Those it follows; empty when it follows all.
    std::vector<core::QueueId> tasks;
    // Of one who follows all: the number of the next change. Of others: what they did not take yet.
    uint64_t next = 0;
    std::deque<Change> pending = {};
    bool waits = false;
    bool began_anew = false;

    bool follows_all() const { return tasks.empty(); }
  };

  const Change& At(uint64_t number) const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return ring_[number % ring_.size()];
  }
  uint64_t oldest() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return std::max(first_, last_ < ring_.size() ? 1 : last_ - ring_.size() + 1);
  }
  void Add(core::QueueId task, uint64_t event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const Follower* follower) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those who are to be told something now.
  using Followers = std::vector<std::shared_ptr<Follower>>;
  Followers TakeWoken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Followers TakeLeftBehind() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last changes, each at its number; numbers of the last one, and of the first of this epoch.
  std::vector<Change> ring_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t first_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::flat_hash_map<const Follower*, std::unique_ptr<Following>> following_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<Following*> of_all_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<core::QueueId, std::vector<Following*>> by_task_ ABSL_GUARDED_BY(mutex_);
  // Of those with tasks of their own: who got something since the last time.
  std::vector<Following*> touched_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_CHANGE_FEED_H_
