#include "libs/link/session_call.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"

namespace callboard::link::internal {
namespace {

constexpr absl::Duration kMin = absl::Milliseconds(50);
constexpr absl::Duration kMax = absl::Seconds(5);

TEST(RedialTest, DelayDoublesUpToTheMaximumWithJitter) {
  absl::Duration full = kMin;
  for (uint32_t failures = 0; failures < 20; ++failures) {
    for (int agent = 0; agent < 100; ++agent) {
      const absl::Duration wait = RedialDelay(absl::StrCat("host:", agent), failures, kMin, kMax);
      EXPECT_GE(wait, full / 2);
      EXPECT_LE(wait, full);
    }
    full = std::min(2 * full, kMax);
  }
  EXPECT_LE(RedialDelay("host:1", std::numeric_limits<uint32_t>::max(), kMin, kMax), kMax);
}

TEST(RedialTest, RedialsOfAgentsLostTogetherAreSpread) {
  constexpr int kAgents = 1000;
  constexpr int kParts = 10;
  for (const uint32_t failures : {0u, 3u, 10u}) {
    const absl::Duration full = std::min(kMin * (1 << failures), kMax);
    int dialled[kParts] = {};
    for (int agent = 0; agent < kAgents; ++agent) {
      const absl::Duration wait =
          RedialDelay(absl::StrCat("10.0.0.", agent % 250, ":", agent), failures, kMin, kMax);
      const double share = absl::FDivDuration(wait - full / 2, full / 2);
      ++dialled[std::min(static_cast<int>(share * kParts), kParts - 1)];
    }
    for (const int count : dialled) EXPECT_LT(count, 2 * kAgents / kParts);
  }
}

TEST(RedialTest, JitterDiffersBetweenFailures) {
  std::set<absl::Duration> waits;
  for (uint32_t failures = 10; failures < 20; ++failures) {
    waits.insert(RedialDelay("host:1", failures, kMin, kMax));
  }
  EXPECT_EQ(waits.size(), 10u);
}

TEST(RedialTest, SessionThatBreaksImmediatelyCountsAsAFailure) {
  EXPECT_EQ(CountFailures({.opened = false}, 3, kMax), 4u);
  EXPECT_EQ(CountFailures({.opened = true, .duration = kMax / 2}, 3, kMax), 4u);
  EXPECT_EQ(CountFailures({.opened = true, .duration = kMax}, 3, kMax), 0u);
  EXPECT_EQ(
      CountFailures({.opened = true, .did_work = true, .duration = kWorkDurationMin}, 3, kMax), 0u);
  EXPECT_EQ(
      CountFailures({.opened = true, .did_work = true, .duration = kWorkDurationMin / 2}, 3, kMax),
      4u)
      << "it may have repeated an old result";
}

TEST(RedialTest, UnreachableAddressesShareOneDialRate) {
  EXPECT_EQ(RedialDelayMax(/*waiting=*/0, /*per_second=*/100, kMax), kMax);
  EXPECT_EQ(RedialDelayMax(/*waiting=*/500, /*per_second=*/100, kMax), kMax);
  EXPECT_EQ(RedialDelayMax(/*waiting=*/5000, /*per_second=*/100, kMax), absl::Seconds(50));
}

TEST(RedialTest, FirstDialsKeepToTheRateAfterABurst) {
  FirstDialLimiter limiter(/*per_second=*/100);
  absl::Duration now = absl::Hours(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limiter.TryAcquire(now)) << i;
  EXPECT_FALSE(limiter.TryAcquire(now));
  int dials = 0;
  for (int i = 0; i < 10'000; ++i) {
    now += absl::Milliseconds(1);
    if (limiter.TryAcquire(now)) ++dials;
  }
  EXPECT_EQ(dials, 1000);
  now += absl::Hours(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limiter.TryAcquire(now)) << i;
  EXPECT_FALSE(limiter.TryAcquire(now)) << "unused dials do not accumulate";
}

}  // namespace
}  // namespace callboard::link::internal
