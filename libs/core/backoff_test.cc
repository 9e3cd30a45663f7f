#include "libs/core/dispatch_rules.h"

#include <gtest/gtest.h>

#include <set>

namespace callboard::core {
namespace {

constexpr QueueId kTask = QueueId(Ulid(1, 2));

TEST(BackoffTest, GrowsFourfoldUpToFiveMinutes) {
  const absl::Duration full[] = {absl::Seconds(5), absl::Seconds(20), absl::Seconds(80),
                                 absl::Minutes(5), absl::Minutes(5)};
  for (uint32_t attempts = 1; attempts <= 5; ++attempts) {
    const absl::Duration backoff = BackoffAfter(kTask, attempts, std::nullopt);
    EXPECT_GE(backoff, full[attempts - 1] / 2);
    EXPECT_LT(backoff, full[attempts - 1]);
  }
  EXPECT_LE(BackoffAfter(kTask, 100, std::nullopt), absl::Minutes(5));
}

TEST(BackoffTest, IsStablePerTaskAndSpreadOverTasks) {
  EXPECT_EQ(BackoffAfter(kTask, 1, std::nullopt), BackoffAfter(kTask, 1, std::nullopt));
  std::set<absl::Duration> backoffs;
  absl::Duration least = absl::InfiniteDuration();
  absl::Duration most;
  for (uint64_t i = 0; i < 1000; ++i) {
    const absl::Duration backoff = BackoffAfter(QueueId(Ulid(0, i)), 1, std::nullopt);
    backoffs.insert(backoff);
    least = std::min(least, backoff);
    most = std::max(most, backoff);
  }
  EXPECT_EQ(backoffs.size(), 1000u);
  EXPECT_LT(least, absl::Milliseconds(2600));
  EXPECT_GT(most, absl::Milliseconds(4900));
}

TEST(BackoffTest, RequestOfTheAgentWinsUpToFifteenMinutes) {
  EXPECT_EQ(BackoffAfter(kTask, 1, absl::Seconds(90)), absl::Seconds(90));
  EXPECT_EQ(BackoffAfter(kTask, 1, absl::Hours(1)), absl::Minutes(15));
  EXPECT_EQ(BackoffAfter(kTask, 1, -absl::Seconds(1)), absl::ZeroDuration());
}

TEST(BackoffTest, UnreachableBackoffDoublesUpToTwoMinutes) {
  EXPECT_EQ(UnreachableBackoff(1), absl::Seconds(5));
  EXPECT_EQ(UnreachableBackoff(2), absl::Seconds(10));
  EXPECT_EQ(UnreachableBackoff(5), absl::Seconds(80));
  EXPECT_EQ(UnreachableBackoff(6), absl::Minutes(2));
  EXPECT_EQ(UnreachableBackoff(1000), absl::Minutes(2));
}

}  // namespace
}  // namespace callboard::core
