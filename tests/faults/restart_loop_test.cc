// A director that is killed repeatedly, for a short time; soak_test.cc does it for a minute.
#include "tests/faults/restart_loop.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "libs/testing/files.h"

namespace callboard::faults {
namespace {

TEST(RestartLoopTest, RepeatedKillsLoseNothingAndEveryStartSucceeds) {
  const RestartReport report =
      KillRepeatedly(test::NewFolder(), /*kills=*/6, absl::Milliseconds(300));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.kills, 6u);
  // Not every director lives long enough for a submit.
  EXPECT_GT(report.found.acknowledged, report.kills);
}

}  // namespace
}  // namespace callboard::faults
