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

class Listener final : public FeedSubscriber {
 public:
  void OnChanges() override { ++notified; }
  void OnFellBehind() override { ++too_slow; }

  int notified = 0;
  int too_slow = 0;
};

class ChangeFeedTest : public testing::Test {
 protected:
  ChangeFeedTest() { feed_.Begin(7); }

  void Publish(core::QueueId task, uint64_t event) {
    const core::Record record = core::TaskRecord{.queue_id = task, .event = {.number = event}};
    feed_.Publish({record});
  }
  std::shared_ptr<Listener> Subscribe(const std::vector<core::QueueId>& tasks = {},
                                      std::optional<FeedCursor> from = {}) {
    auto listener = std::make_shared<Listener>();
    subscribed_ = *feed_.Subscribe(listener, tasks, from);
    return listener;
  }
  // Takes changes and returns the numbers of their events.
  std::vector<uint64_t> TakeChanges(const FeedSubscriber& subscriber, size_t max_changes = 100) {
    const ChangeFeed::ChangeBatch batch = feed_.TakeChanges(subscriber, max_changes);
    cursor_ = batch.cursor;
    was_reset_ = batch.was_reset;
    std::vector<uint64_t> events;
    for (const Change& change : batch.changes) events.push_back(change.event);
    return events;
  }

  // Keeps four changes.
  ChangeFeed feed_{4};
  ChangeFeed::SubscribeResult subscribed_;
  FeedCursor cursor_;
  bool was_reset_ = false;
};

TEST_F(ChangeFeedTest, SubscriberOfAllTasksGetsEveryNewChange) {
  Publish(kOne, 1);
  const auto all = Subscribe();
  EXPECT_FALSE(subscribed_.resumed);
  EXPECT_THAT(TakeChanges(*all), IsEmpty());
  Publish(kOne, 2);
  Publish(kTwo, 1);
  EXPECT_THAT(TakeChanges(*all), ElementsAre(2, 1));
}

TEST_F(ChangeFeedTest, SubscriberIsNotifiedOnceUntilItHasTakenEverything) {
  const auto all = Subscribe();
  Publish(kOne, 1);
  EXPECT_EQ(all->notified, 0) << "it has not taken anything yet";
  EXPECT_THAT(TakeChanges(*all, 1), ElementsAre(1));
  EXPECT_THAT(TakeChanges(*all), IsEmpty());
  Publish(kOne, 2);
  Publish(kOne, 3);
  EXPECT_EQ(all->notified, 1);
}

TEST_F(ChangeFeedTest, SubscriberOfATaskGetsNoOtherChanges) {
  const auto one = Subscribe({kOne});
  EXPECT_THAT(TakeChanges(*one), IsEmpty());
  for (uint64_t event = 1; event <= 100; ++event) Publish(kTwo, event);
  EXPECT_EQ(one->notified, 0);
  EXPECT_EQ(one->too_slow, 0);
  Publish(kOne, 1);
  EXPECT_EQ(one->notified, 1);
  EXPECT_THAT(TakeChanges(*one), ElementsAre(1));
  EXPECT_EQ(one->too_slow, 0);
}

TEST_F(ChangeFeedTest, OnlyTaskRecordsAreChanges) {
  const auto all = Subscribe();
  feed_.Publish({core::Record(core::QueueSwitched{}), core::Record(core::TaskForgotten{})});
  EXPECT_THAT(TakeChanges(*all), IsEmpty());
}

TEST_F(ChangeFeedTest, NewSubscriberContinuesAtACursor) {
  const auto all = Subscribe();
  for (uint64_t event = 1; event <= 4; ++event) Publish(event % 2 == 1 ? kOne : kTwo, event);
  EXPECT_THAT(TakeChanges(*all, 1), ElementsAre(1));
  const auto later = Subscribe({}, cursor_);
  EXPECT_TRUE(subscribed_.resumed);
  EXPECT_THAT(TakeChanges(*later), ElementsAre(2, 3, 4));
  const auto of_one = Subscribe({kOne}, FeedCursor(cursor_.epoch, cursor_.number - 3));
  EXPECT_TRUE(subscribed_.resumed);
  EXPECT_THAT(TakeChanges(*of_one), ElementsAre(3));
}

TEST_F(ChangeFeedTest, CursorMovesPastChangesOfOtherTasks) {
  const auto one = Subscribe({kOne});
  Publish(kOne, 1);
  for (uint64_t event = 1; event <= 100; ++event) Publish(kTwo, event);
  EXPECT_THAT(TakeChanges(*one), ElementsAre(1));
  Subscribe({kOne}, cursor_);
  EXPECT_TRUE(subscribed_.resumed);
}

TEST_F(ChangeFeedTest, InvalidCursorStartsFromNow) {
  Subscribe();
  const FeedCursor old = subscribed_.cursor;
  for (uint64_t event = 1; event <= 4; ++event) Publish(kOne, event);
  Subscribe({}, old);
  EXPECT_TRUE(subscribed_.resumed) << "four changes are kept";
  Publish(kOne, 5);
  Subscribe({}, old);
  EXPECT_FALSE(subscribed_.resumed);
  const FeedCursor now = subscribed_.cursor;
  Subscribe({}, FeedCursor{now.epoch + 1, now.number});
  EXPECT_FALSE(subscribed_.resumed);
  Subscribe({}, FeedCursor{now.epoch, now.number + 1});
  EXPECT_FALSE(subscribed_.resumed);
}

TEST_F(ChangeFeedTest, SlowSubscriberFallsBehindOnce) {
  const auto all = Subscribe();
  const auto one = Subscribe({kOne});
  for (uint64_t event = 1; event <= 4; ++event) Publish(kOne, event);
  EXPECT_EQ(all->too_slow + one->too_slow, 0);
  for (uint64_t event = 5; event <= 9; ++event) Publish(kOne, event);
  EXPECT_EQ(all->too_slow, 1);
  EXPECT_EQ(one->too_slow, 1);
  EXPECT_THAT(TakeChanges(*all), IsEmpty());
}

TEST_F(ChangeFeedTest, NewEpochResetsSubscribersAndNotifiesThem) {
  const auto waits = Subscribe();
  EXPECT_THAT(TakeChanges(*waits), IsEmpty());
  const FeedCursor before = cursor_;
  feed_.Begin(7);
  EXPECT_EQ(waits->notified, 1);
  EXPECT_THAT(TakeChanges(*waits), IsEmpty());
  EXPECT_TRUE(was_reset_);
  Subscribe({}, before);
  EXPECT_FALSE(subscribed_.resumed) << "also in the same epoch, because changes may be lost";
  Publish(kOne, 1);
  EXPECT_THAT(TakeChanges(*waits), ElementsAre(1));
  EXPECT_FALSE(was_reset_);
}

TEST_F(ChangeFeedTest, UnsubscribedSubscriberIsNotNotified) {
  const auto one = Subscribe({kOne, kTwo, kOne});
  EXPECT_THAT(TakeChanges(*one), IsEmpty());
  feed_.Unsubscribe(*one);
  feed_.Unsubscribe(*one);
  Publish(kOne, 1);
  EXPECT_EQ(one->notified, 0);
  EXPECT_EQ(one.use_count(), 1);
}

TEST_F(ChangeFeedTest, NumberOfSubscribersIsBounded) {
  std::vector<std::shared_ptr<Listener>> listeners;
  for (size_t i = 0; i < ChangeFeed::kSubscribersMax; ++i) listeners.push_back(Subscribe());
  EXPECT_THAT(feed_.Subscribe(std::make_shared<Listener>(), {}, {}),
              HasReason("TOO_MANY_WATCHERS"));
}

}  // namespace
}  // namespace callboard::director
