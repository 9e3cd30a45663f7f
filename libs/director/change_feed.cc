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
      base::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                           "too many watch tasks (", ChangeFeed::kFollowersMax, "); retry later")),
                       "TOO_MANY_WATCHERS",
                       {{"watchers_max", absl::StrCat(ChangeFeed::kFollowersMax)}}),
      kTooManyRetryAfter);
}

}  // namespace

void ChangeFeed::Begin(uint64_t epoch) {
  Followers woken;
  {
    base::MutexLock lock(mutex_);
    epoch_ = epoch;
    // Leaves a number out, so that no place of before is one that is known.
    first_ = last_ + 2;
    last_ = first_ - 1;
    touched_.clear();
    for (const auto& [follower, following] : following_) {
      following->began_anew = true;
      following->pending.clear();
      following->next = first_;
      if (std::exchange(following->waits, false)) woken.push_back(following->follower);
    }
  }
  for (const std::shared_ptr<Follower>& follower : woken) follower->OnChanges();
}

void ChangeFeed::Publish(absl::Span<const core::Record> records) {
  Followers woken;
  Followers left_behind;
  {
    base::MutexLock lock(mutex_);
    for (const core::Record& record : records) {
      if (const auto* task = std::get_if<core::TaskRecord>(&record)) {
        Add(task->queue_id, task->event.number);
      }
    }
    left_behind = TakeLeftBehind();
    woken = TakeWoken();
  }
  for (const std::shared_ptr<Follower>& follower : left_behind) follower->OnLeftBehind();
  for (const std::shared_ptr<Follower>& follower : woken) follower->OnChanges();
}

void ChangeFeed::Add(core::QueueId task, uint64_t event) {
  const Change change = {.number = ++last_, .queue_id = task, .event = event};
  ring_[change.number % ring_.size()] = change;
  if (by_task_.empty()) return;
  const auto followers = by_task_.find(task);
  if (followers == by_task_.end()) return;
  for (Following* following : followers->second) {
    following->pending.push_back(change);
    touched_.push_back(following);
  }
}

ChangeFeed::Followers ChangeFeed::TakeLeftBehind() {
  std::vector<const Follower*> behind;
  for (const Following* following : of_all_) {
    if (following->next < oldest()) behind.push_back(following->follower.get());
  }
  for (const Following* following : touched_) {
    if (following->pending.size() > ring_.size()) behind.push_back(following->follower.get());
  }
  Followers left;
  for (const Follower* follower : behind) {
    // One with several tasks may have been touched several times.
    const auto found = following_.find(follower);
    if (found == following_.end()) continue;
    left.push_back(found->second->follower);
    Erase(follower);
  }
  return left;
}

ChangeFeed::Followers ChangeFeed::TakeWoken() {
  Followers woken;
  const auto wake = [&woken](Following& following) {
    if (std::exchange(following.waits, false)) woken.push_back(following.follower);
  };
  for (Following* following : of_all_) {
    if (following->next <= last_) wake(*following);
  }
  for (Following* following : std::exchange(touched_, {})) wake(*following);
  return woken;
}

absl::StatusOr<ChangeFeed::Followed> ChangeFeed::Follow(std::shared_ptr<Follower> follower,
                                                        const std::vector<core::QueueId>& tasks,
                                                        std::optional<FeedPlace> from) {
  base::MutexLock lock(mutex_);
  if (following_.size() >= kFollowersMax) return TooManyWatchers();
  const bool resumed = from.has_value() && from->epoch == epoch_ && from->number <= last_ &&
                       from->number + 1 >= oldest();
  const FeedPlace place = resumed ? *from : FeedPlace{epoch_, last_};
  const Follower* key = follower.get();
  auto added = std::make_unique<Following>(Following{std::move(follower), tasks, place.number + 1});
  std::sort(added->tasks.begin(), added->tasks.end());
  added->tasks.erase(std::unique(added->tasks.begin(), added->tasks.end()), added->tasks.end());
  if (added->follows_all()) {
    of_all_.insert(added.get());
  } else {
    for (uint64_t number = place.number + 1; number <= last_; ++number) {
      const Change& change = At(number);
      if (std::binary_search(added->tasks.begin(), added->tasks.end(), change.queue_id)) {
        added->pending.push_back(change);
      }
    }
  }
  for (const core::QueueId& task : added->tasks) by_task_[task].push_back(added.get());
  CHECK(following_.emplace(key, std::move(added)).second);
  return Followed{.resumed = resumed, .place = place};
}

void ChangeFeed::Unfollow(const Follower& follower) {
  base::MutexLock lock(mutex_);
  Erase(&follower);
}

void ChangeFeed::Erase(const Follower* follower) {
  const auto found = following_.find(follower);
  if (found == following_.end()) return;
  Following* following = found->second.get();
  of_all_.erase(following);
  for (const core::QueueId& task : following->tasks) {
    const auto others = by_task_.find(task);
    std::erase(others->second, following);
    if (others->second.empty()) by_task_.erase(others);
  }
  std::erase(touched_, following);
  following_.erase(found);
}

ChangeFeed::Taken ChangeFeed::Take(const Follower& follower, size_t most) {
  base::MutexLock lock(mutex_);
  Taken taken = {.place = {epoch_, last_}};
  const auto found = following_.find(&follower);
  if (found == following_.end()) return taken;
  Following& following = *found->second;
  if (std::exchange(following.began_anew, false)) {
    taken.began_anew = true;
    return taken;
  }
  if (following.follows_all()) {
    for (; following.next <= last_ && taken.changes.size() < most; ++following.next) {
      taken.changes.push_back(At(following.next));
    }
    taken.place.number = following.next - 1;
  } else {
    while (!following.pending.empty() && taken.changes.size() < most) {
      taken.changes.push_back(following.pending.front());
      following.pending.pop_front();
    }
    // Nothing of what others did meanwhile has to be looked at again.
    if (!following.pending.empty()) taken.place.number = following.pending.front().number - 1;
  }
  following.waits = taken.changes.empty();
  return taken;
}

}  // namespace callboard::director
