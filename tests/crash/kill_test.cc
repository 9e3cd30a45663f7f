// Tests of directors that die at a call that changes their files, makes changes durable, or sends
// an answer, and of the next director on the folder. Covers a sample of the calls; run_all.sh
// covers all.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "tests/crash/crash_run.h"

namespace callboard::crash {
namespace {

// Kills directors at calls that are spread over a whole run.
RunTotals KillAtSome(Scenario scenario, uint64_t points) {
  CrashRuns runs(test::NewFolder());
  const Outcome whole = runs.Kill({.scenario = scenario});
  RunTotals totals;
  totals.Add("whole", whole);
  for (uint64_t i = 0; i < points; ++i) {
    const KillPoint point = {.scenario = scenario,
                             .call = 1 + i * whole.calls / points,
                             .death = static_cast<DeathTime>(i % 3),
                             .seed = i};
    totals.Add(absl::StrCat("call ", point.call, ", seed ", i), runs.Kill(point));
  }
  return totals;
}

constexpr uint64_t kPoints = 20;
// A run makes fewer calls with another seed, or when more callers share a turn; then it does not
// reach the last kill points.
constexpr uint64_t kKilledAtLeast = kPoints / 2;

TEST(KillTest, KillOnANewFolderLosesNothing) {
  const RunTotals totals = KillAtSome(Scenario::kFresh, kPoints);
  EXPECT_EQ(totals.failures, "");
  EXPECT_GE(totals.killed, kKilledAtLeast);
}

TEST(KillTest, KillAfterEarlierKillsLosesNothing) {
  const RunTotals totals = KillAtSome(Scenario::kRestart, kPoints);
  EXPECT_EQ(totals.failures, "");
  EXPECT_GE(totals.killed, kKilledAtLeast);
}

TEST(KillTest, KillDuringAReopenLosesNothing) {
  const RunTotals totals = KillAtSome(Scenario::kReopen, kPoints);
  EXPECT_EQ(totals.failures, "");
  EXPECT_GE(totals.killed, kKilledAtLeast);
}

}  // namespace
}  // namespace callboard::crash
