#include "libs/base/bounded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace callboard::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;
using ::testing::NotNull;
using ::testing::Pointee;

TEST(BoundedQueueTest, PushAtCapacityFailsAndKeepsTheElement) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.TryPush(std::make_unique<int>(1)));
  auto second = std::make_unique<int>(2);
  EXPECT_FALSE(queue.TryPush(std::move(second)));
  EXPECT_THAT(second, Pointee(2));
  EXPECT_EQ(queue.size(), 1u);
}

TEST(BoundedQueueTest, PopReturnsTheOldestAndFreesAPlace) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_TRUE(queue.TryPush(2));
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_TRUE(queue.TryPush(3));
  EXPECT_THAT(queue.TakeAll(), ElementsAre(2, 3));
  EXPECT_TRUE(queue.empty());
}

TEST(BoundedQueueTest, PopOfAnEmptyQueueDies) {
  BoundedQueue<int> queue(1);
  EXPECT_DEATH(queue.Pop(), "check failed");
}

TEST(BoundedMapTest, FindsOldKeysButInsertsNoNewOnesAtCapacity) {
  BoundedMap<std::string, int> map(1);
  ASSERT_THAT(map.FindOrInsert("a"), Pointee(0));
  *map.FindOrInsert("a") = 7;
  EXPECT_THAT(map.FindOrInsert("b"), IsNull());
  EXPECT_THAT(map.FindOrInsert("a"), Pointee(7));
  map.Erase("a");
  EXPECT_THAT(map.FindOrInsert("b"), NotNull());
}

}  // namespace
}  // namespace callboard::base
