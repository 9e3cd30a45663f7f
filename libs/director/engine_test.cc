#include "libs/director/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard::director {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(DirectorEngineTest, NewQueueIsEmptyAndShowsItsBounds) {
  const DirectorEngine engine({.max_size = 7, .policy = core::QueuePolicy::kBlock});
  const core::QueueStatus status = engine.Status();
  EXPECT_EQ(status.counts.pending, 0u);
  EXPECT_EQ(status.options.max_size, 7u);
  EXPECT_EQ(status.options.policy, core::QueuePolicy::kBlock);
  EXPECT_FALSE(status.draining);
}

TEST(DirectorEngineTest, DecidingChangesNothingAndApplyingDoes) {
  DirectorEngine engine({});
  const std::vector<Event> events = engine.Decide(BeginDrain{});
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_FALSE(engine.Status().draining);
  engine.Apply(events.front());
  EXPECT_TRUE(engine.Status().draining);
}

TEST(DirectorEngineTest, SecondDrainLeadsToNoEvent) {
  DirectorEngine engine({});
  engine.Apply(DrainBegan{});
  EXPECT_THAT(engine.Decide(BeginDrain{}), IsEmpty());
}

}  // namespace
}  // namespace callboard::director
