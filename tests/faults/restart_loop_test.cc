// A director that is killed again and again, for a moment; soak_test.cc does it for a minute.
#include "tests/faults/restart_loop.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "libs/testing/new_folder.h"

namespace callboard::faults {
namespace {

TEST(RestartLoopTest, NothingIsLostOrDoubledAndNoStartNeedsRepair) {
  const RestartReport report =
      RestartAgainAndAgain(test::NewFolder(), /*kills=*/6, absl::Milliseconds(300));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.kills, 6u);
  // Not every life is long enough for one.
  EXPECT_GT(report.found.acknowledged, report.kills);
}

}  // namespace
}  // namespace callboard::faults
