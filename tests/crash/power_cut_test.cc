// Tests of directors whose machine loses power: unsynced changes are lost, cut short, or kept in
// part. Covers a sample of the calls; run_all.sh covers all.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "tests/crash/crash_run.h"

namespace callboard::crash {
namespace {

// Cuts the power after calls that are spread over a whole run.
RunTotals CutAtSome(Scenario scenario, Unsynced unsynced, uint64_t points, uint64_t seed) {
  CrashRuns runs(test::NewFolder());
  const Recording recording = runs.Record(scenario, seed);
  RunTotals totals;
  for (uint64_t i = 0; i < points; ++i) {
    const uint64_t tick = recording.calls[i * recording.calls.size() / points].tick;
    totals.Add(absl::StrCat("tick ", tick),
               runs.CutPower(recording, {.tick = tick, .unsynced = unsynced, .seed = i}));
  }
  return totals;
}

TEST(PowerCutTest, LossOfAllUnsyncedDataLosesNothingAcknowledged) {
  EXPECT_EQ(CutAtSome(Scenario::kFresh, Unsynced::kLost, 12, 0).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kRestart, Unsynced::kLost, 8, 1).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kReopen, Unsynced::kLost, 8, 2).failures, "");
}

TEST(PowerCutTest, TornTailLosesNothingAcknowledged) {
  EXPECT_EQ(CutAtSome(Scenario::kFresh, Unsynced::kCutShort, 12, 1).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kRestart, Unsynced::kCutShort, 8, 0).failures, "");
}

TEST(PowerCutTest, HolesInUnsyncedDataLoseNothingAcknowledged) {
  EXPECT_EQ(CutAtSome(Scenario::kFresh, Unsynced::kHoles, 8, 2).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kRestart, Unsynced::kHoles, 8, 3).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kReopen, Unsynced::kHoles, 8, 1).failures, "");
}

}  // namespace
}  // namespace callboard::crash
