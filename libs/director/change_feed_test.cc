#include "libs/director/change_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::HasReason;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const core::QueueId kOne(core::Ulid(1, 1));
const core::QueueId kTwo(core::Ulid(1, 2));

class Listener final : public Follower {
 public:
  void OnChanges() override { ++told; }
  void OnLeftBehind() override { ++left_behind; }

  int told = 0;
  int left_behind = 0;
};

class ChangeFeedTest : public testing::Test {
 protected:
  ChangeFeedTest() { feed_.Begin(7); }

  void Publish(core::QueueId task, uint64_t event) {
    const core::Record record = core::TaskRecord{.queue_id = task, .event = {.number = event}};
    feed_.Publish({record});
  }
  std::shared_ptr<Listener> Follow(const std::vector<core::QueueId>& tasks = {},
                                   std::optional<FeedPlace> from = {}) {
    auto listener = std::make_shared<Listener>();
    followed_ = *feed_.Follow(listener, tasks, from);
    return listener;
  }
  // The events of what can be taken.
  std::vector<uint64_t> Take(const Follower& follower, size_t most = 100) {
    const ChangeFeed::Taken taken = feed_.Take(follower, most);
    place_ = taken.place;
    began_anew_ = taken.began_anew;
    std::vector<uint64_t> events;
    for (const Change& change : taken.changes) events.push_back(change.event);
    return events;
  }

  // Four changes are kept.
  ChangeFeed feed_{4};
  ChangeFeed::Followed followed_;
  FeedPlace place_;
  bool began_anew_ = false;
};

TEST_F(ChangeFeedTest, FollowerOfAllTakesEveryChangeFromNowOn) {
  Publish(kOne, 1);
  const auto all = Follow();
  EXPECT_FALSE(followed_.resumed);
  EXPECT_THAT(Take(*all), IsEmpty());
  Publish(kOne, 2);
  Publish(kTwo, 1);
  EXPECT_THAT(Take(*all), ElementsAre(2, 1));
}

TEST_F(ChangeFeedTest, FollowerIsToldOnceUntilThereIsNothingLeft) {
  const auto all = Follow();
  Publish(kOne, 1);
  EXPECT_EQ(all->told, 0) << "it has not looked yet";
  EXPECT_THAT(Take(*all, 1), ElementsAre(1));
  EXPECT_THAT(Take(*all), IsEmpty());
  Publish(kOne, 2);
  Publish(kOne, 3);
  EXPECT_EQ(all->told, 1);
}

TEST_F(ChangeFeedTest, FollowerOfATaskIsNotTroubledByOthers) {
  const auto one = Follow({kOne});
  EXPECT_THAT(Take(*one), IsEmpty());
  for (uint64_t event = 1; event <= 100; ++event) Publish(kTwo, event);
  EXPECT_EQ(one->told, 0);
  EXPECT_EQ(one->left_behind, 0);
  Publish(kOne, 1);
  EXPECT_EQ(one->told, 1);
  EXPECT_THAT(Take(*one), ElementsAre(1));
  EXPECT_EQ(one->left_behind, 0);
}

TEST_F(ChangeFeedTest, RecordsOfOtherThingsAreNoChanges) {
  const auto all = Follow();
  feed_.Publish({core::Record(core::QueueSwitched{}), core::Record(core::TaskForgotten{})});
  EXPECT_THAT(Take(*all), IsEmpty());
}

TEST_F(ChangeFeedTest, PlaceIsWhereAnotherGoesOn) {
  const auto all = Follow();
  for (uint64_t event = 1; event <= 4; ++event) Publish(event % 2 == 1 ? kOne : kTwo, event);
  EXPECT_THAT(Take(*all, 1), ElementsAre(1));
  const auto later = Follow({}, place_);
  EXPECT_TRUE(followed_.resumed);
  EXPECT_THAT(Take(*later), ElementsAre(2, 3, 4));
  const auto of_one = Follow({kOne}, FeedPlace(place_.epoch, place_.number - 3));
  EXPECT_TRUE(followed_.resumed);
  EXPECT_THAT(Take(*of_one), ElementsAre(3));
}

TEST_F(ChangeFeedTest, PlaceMovesWithWhatOthersDo) {
  const auto one = Follow({kOne});
  Publish(kOne, 1);
  for (uint64_t event = 1; event <= 100; ++event) Publish(kTwo, event);
  EXPECT_THAT(Take(*one), ElementsAre(1));
  Follow({kOne}, place_);
  EXPECT_TRUE(followed_.resumed);
}

TEST_F(ChangeFeedTest, PlaceThatIsTooOldOfAnotherEpochOrMadeUpIsNotGoneOnFrom) {
  Follow();
  const FeedPlace old = followed_.place;
  for (uint64_t event = 1; event <= 4; ++event) Publish(kOne, event);
  Follow({}, old);
  EXPECT_TRUE(followed_.resumed) << "four are kept";
  Publish(kOne, 5);
  Follow({}, old);
  EXPECT_FALSE(followed_.resumed);
  const FeedPlace now = followed_.place;
  Follow({}, FeedPlace{now.epoch + 1, now.number});
  EXPECT_FALSE(followed_.resumed);
  Follow({}, FeedPlace{now.epoch, now.number + 1});
  EXPECT_FALSE(followed_.resumed);
}

TEST_F(ChangeFeedTest, FollowerThatIsTooSlowIsLeftBehindOnce) {
  const auto all = Follow();
  const auto one = Follow({kOne});
  for (uint64_t event = 1; event <= 4; ++event) Publish(kOne, event);
  EXPECT_EQ(all->left_behind + one->left_behind, 0);
  for (uint64_t event = 5; event <= 9; ++event) Publish(kOne, event);
  EXPECT_EQ(all->left_behind, 1);
  EXPECT_EQ(one->left_behind, 1);
  EXPECT_THAT(Take(*all), IsEmpty());
}

TEST_F(ChangeFeedTest, NewBeginningVoidsWhatWasTakenAndWakesWhoWaits) {
  const auto waits = Follow();
  EXPECT_THAT(Take(*waits), IsEmpty());
  const FeedPlace before = place_;
  feed_.Begin(7);
  EXPECT_EQ(waits->told, 1);
  EXPECT_THAT(Take(*waits), IsEmpty());
  EXPECT_TRUE(began_anew_);
  Follow({}, before);
  EXPECT_FALSE(followed_.resumed) << "also in the same epoch: what was lost is not known";
  Publish(kOne, 1);
  EXPECT_THAT(Take(*waits), ElementsAre(1));
  EXPECT_FALSE(began_anew_);
}

TEST_F(ChangeFeedTest, WhoUnfollowsIsToldNothingMore) {
  const auto one = Follow({kOne, kTwo, kOne});
  EXPECT_THAT(Take(*one), IsEmpty());
  feed_.Unfollow(*one);
  feed_.Unfollow(*one);
  Publish(kOne, 1);
  EXPECT_EQ(one->told, 0);
  EXPECT_EQ(one.use_count(), 1);
}

TEST_F(ChangeFeedTest, NumberOfFollowersIsBounded) {
  std::vector<std::shared_ptr<Listener>> listeners;
  for (size_t i = 0; i < ChangeFeed::kFollowersMax; ++i) listeners.push_back(Follow());
  EXPECT_THAT(feed_.Follow(std::make_shared<Listener>(), {}, {}), HasReason("TOO_MANY_WATCHERS"));
}

}  // namespace
}  // namespace callboard::director
