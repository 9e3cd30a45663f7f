#include "libs/adapters/grpc_link/redial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"

namespace callboard::adapters::internal {
namespace {

constexpr absl::Duration kMin = absl::Milliseconds(50);
constexpr absl::Duration kMax = absl::Seconds(5);

TEST(RedialTest, WaitDoublesWithEveryFailureUpToTheMostAndIsNeverLessThanHalf) {
  absl::Duration full = kMin;
  for (uint32_t failures = 0; failures < 20; ++failures) {
    for (int agent = 0; agent < 100; ++agent) {
      const absl::Duration wait = RedialAfter(absl::StrCat("host:", agent), failures, kMin, kMax);
      EXPECT_GE(wait, full / 2);
      EXPECT_LE(wait, full);
    }
    full = std::min(2 * full, kMax);
  }
  EXPECT_LE(RedialAfter("host:1", std::numeric_limits<uint32_t>::max(), kMin, kMax), kMax);
}

TEST(RedialTest, AgentsThatAreLostTogetherAreDialledAllOverTheTime) {
  constexpr int kAgents = 1000;
  constexpr int kParts = 10;
  for (const uint32_t failures : {0u, 3u, 10u}) {
    const absl::Duration full = std::min(kMin * (1 << failures), kMax);
    int dialled[kParts] = {};
    for (int agent = 0; agent < kAgents; ++agent) {
      const absl::Duration wait =
          RedialAfter(absl::StrCat("10.0.0.", agent % 250, ":", agent), failures, kMin, kMax);
      const double share = absl::FDivDuration(wait - full / 2, full / 2);
      ++dialled[std::min(static_cast<int>(share * kParts), kParts - 1)];
    }
    for (const int count : dialled) EXPECT_LT(count, 2 * kAgents / kParts);
  }
}

TEST(RedialTest, OneAgentsTurnIsNotTheSameEveryTime) {
  std::set<absl::Duration> waits;
  for (uint32_t failures = 10; failures < 20; ++failures) {
    waits.insert(RedialAfter("host:1", failures, kMin, kMax));
  }
  EXPECT_EQ(waits.size(), 10u);
}

TEST(RedialTest, SessionThatOpensAndBreaksAtOnceIsAFailureLikeOneThatCannotBeOpened) {
  EXPECT_EQ(FailuresAfter({.opened = false}, 3, kMax), 4u);
  EXPECT_EQ(FailuresAfter({.opened = true, .stood = kMax / 2}, 3, kMax), 4u);
  EXPECT_EQ(FailuresAfter({.opened = true, .stood = kMax}, 3, kMax), 0u);
  EXPECT_EQ(FailuresAfter({.opened = true, .did_work = true, .stood = kWorkTakes}, 3, kMax), 0u);
  EXPECT_EQ(FailuresAfter({.opened = true, .did_work = true, .stood = kWorkTakes / 2}, 3, kMax), 4u)
      << "it may have repeated an old result";
}

TEST(RedialTest, ManyAddressesThatCannotBeReachedShareOneDialRate) {
  EXPECT_EQ(LongestRedial(/*waiting=*/0, /*per_second=*/100, kMax), kMax);
  EXPECT_EQ(LongestRedial(/*waiting=*/500, /*per_second=*/100, kMax), kMax);
  EXPECT_EQ(LongestRedial(/*waiting=*/5000, /*per_second=*/100, kMax), absl::Seconds(50));
}

TEST(RedialTest, FirstDialsKeepToTheirRateAfterASecondsWorthOfThem) {
  FirstDials dials(/*per_second=*/100);
  absl::Duration now = absl::Hours(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(dials.Take(now)) << i;
  EXPECT_FALSE(dials.Take(now));
  int taken = 0;
  for (int i = 0; i < 10'000; ++i) {
    now += absl::Milliseconds(1);
    if (dials.Take(now)) ++taken;
  }
  EXPECT_EQ(taken, 1000);
  now += absl::Hours(1);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(dials.Take(now)) << i;
  EXPECT_FALSE(dials.Take(now)) << "what is not used is not saved up";
}

}  // namespace
}  // namespace callboard::adapters::internal
