#include "libs/core/queue.h"

#include <gtest/gtest.h>

namespace callboard::core {
namespace {

TEST(DrainRateTest, UnmeasuredQueueHasDefaultRetryAfter) {
  const DrainRate rate;
  EXPECT_EQ(rate.PerSecond(absl::Seconds(10)), 0);
  EXPECT_EQ(rate.RetryAfter(absl::Seconds(10)), absl::Seconds(5));
}

TEST(DrainRateTest, SteadyRateIsMeasuredAndDecays) {
  DrainRate rate;
  absl::Duration now = absl::Hours(1);
  for (int i = 0; i < 1200; ++i) rate.Record(now += absl::Milliseconds(500));
  EXPECT_NEAR(rate.PerSecond(now), 2, 0.1);
  EXPECT_NEAR(rate.PerSecond(now + absl::Minutes(10)), 0, 0.001);
}

TEST(DrainRateTest, RetryAfterIsTheTimeToTheNextPlaceWithinBounds) {
  DrainRate slow;
  absl::Duration now;
  for (int i = 0; i < 100; ++i) slow.Record(now += absl::Seconds(10));
  EXPECT_NEAR(absl::ToDoubleSeconds(slow.RetryAfter(now)), 10, 2);
  EXPECT_EQ(slow.RetryAfter(now + absl::Hours(1)), absl::Minutes(1));
  DrainRate fast;
  for (int i = 0; i < 1000; ++i) fast.Record(now += absl::Milliseconds(1));
  EXPECT_EQ(fast.RetryAfter(now), absl::Seconds(1));
}

}  // namespace
}  // namespace callboard::core
