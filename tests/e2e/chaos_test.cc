// A short version of `tests/run.sh chaos`.
#include "tests/e2e/chaos_run.h"

#include <gtest/gtest.h>

#include <iostream>

#include "absl/time/time.h"
#include "libs/testing/files.h"

namespace callboard::e2e {
namespace {

TEST(ChaosTest, CombinedFaultsViolateNoGuarantee) {
  const ChaosReport report = RunChaos(test::NewFolder(), absl::Seconds(10), 1, std::cout);
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_GT(report.faults, 3u);
  EXPECT_GT(report.check_result.submits.acknowledged, 3u);
}

}  // namespace
}  // namespace callboard::e2e
