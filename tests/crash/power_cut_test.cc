// Directors whose machine loses power: what was not synced is gone, or cut short, or there in part.
// At some moments; run_all.sh takes all.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/new_folder.h"
#include "tests/crash/crash_run.h"

namespace callboard::crash {
namespace {

// Power cuts after calls that are spread over a whole run.
Tally CutAtSome(Scenario scenario, Unsynced unsynced, uint64_t points, uint64_t seed) {
  CrashRuns runs(test::NewFolder());
  const Recording recording = runs.Record(scenario, seed);
  Tally tally;
  for (uint64_t i = 0; i < points; ++i) {
    const uint64_t tick = recording.calls[i * recording.calls.size() / points].tick;
    tally.Add(absl::StrCat("tick ", tick),
              runs.CutPower(recording, {.tick = tick, .unsynced = unsynced, .seed = i}));
  }
  return tally;
}

TEST(PowerCutTest, NothingAcknowledgedIsLostWithAllThatWasNotSynced) {
  EXPECT_EQ(CutAtSome(Scenario::kFresh, Unsynced::kLost, 12, 0).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kRestart, Unsynced::kLost, 8, 1).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kReopen, Unsynced::kLost, 8, 2).failures, "");
}

TEST(PowerCutTest, NothingAcknowledgedIsLostWithATornTail) {
  EXPECT_EQ(CutAtSome(Scenario::kFresh, Unsynced::kCutShort, 12, 1).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kRestart, Unsynced::kCutShort, 8, 0).failures, "");
}

TEST(PowerCutTest, NothingAcknowledgedIsLostWithHolesInWhatWasNotSynced) {
  EXPECT_EQ(CutAtSome(Scenario::kFresh, Unsynced::kHoles, 8, 2).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kRestart, Unsynced::kHoles, 8, 3).failures, "");
  EXPECT_EQ(CutAtSome(Scenario::kReopen, Unsynced::kHoles, 8, 1).failures, "");
}

}  // namespace
}  // namespace callboard::crash
