#include "libs/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace callboard::base {
namespace {

using ::testing::Optional;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

TEST(LogLimiterTest, CountsLinesDroppedBeyondTheLimit) {
  LogLimiter limiter(2);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_EQ(limiter.Admit("a", kNow), std::nullopt);
  EXPECT_EQ(limiter.Admit("a", kNow + absl::Milliseconds(999)), std::nullopt);
  EXPECT_THAT(limiter.Admit("a", kNow + absl::Seconds(1)), Optional(2));
  EXPECT_THAT(limiter.Admit("a", kNow + absl::Seconds(1)), Optional(0));
}

TEST(LogLimiterTest, EventsHaveSeparateLimits) {
  LogLimiter limiter(1);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_THAT(limiter.Admit("b", kNow), Optional(0));
  EXPECT_EQ(limiter.Admit("a", kNow), std::nullopt);
}

TEST(LogLimiterTest, LineThatWasNotWrittenIsCountedAsDropped) {
  LogLimiter limiter(2);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  limiter.AddDropped("a", 1);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(1));
}

TEST(LogLimiterTest, ClockSetBackDoesNotSilenceAnEvent) {
  LogLimiter limiter(1);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_THAT(limiter.Admit("a", kNow - absl::Hours(1)), Optional(0));
}

TEST(LogLimiterTest, ManyEventNamesShareOneLimit) {
  LogLimiter limiter(1);
  int passed = 0;
  for (int i = 0; i < 5000; ++i) passed += limiter.Admit(absl::StrCat(i), kNow).has_value();
  EXPECT_EQ(passed, 1024 + 1);
}

}  // namespace
}  // namespace callboard::base
