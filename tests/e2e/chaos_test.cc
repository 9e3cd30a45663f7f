// A short time of what `tests/run.sh chaos` does for as long as one likes.
#include "tests/e2e/chaos_run.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/time/time.h"
#include "libs/testing/new_folder.h"

namespace callboard::e2e {
namespace {

TEST(ChaosTest, NoPromiseIsBrokenWhateverGoesWrongTogether) {
  const ChaosReport report = RunChaos(test::NewFolder(), absl::Seconds(10), 1, std::cout);
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_GT(report.faults, 3u);
  EXPECT_GT(report.verdict.submits.acknowledged, 3u);
}

}  // namespace
}  // namespace callboard::e2e
