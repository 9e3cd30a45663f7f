// Directors that kill themselves at a call that changes their files, makes changes last, or sends
// an answer; and what the next one finds. At some such calls; run_all.sh takes all.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "libs/testing/new_folder.h"
#include "tests/crash/crash_run.h"

namespace callboard::crash {
namespace {

// Killed at calls that are spread over a whole run.
Tally KillAtSome(Scenario scenario, uint64_t points) {
  CrashRuns runs(test::NewFolder());
  const Outcome whole = runs.Kill({.scenario = scenario});
  Tally tally;
  tally.Add("whole", whole);
  for (uint64_t i = 0; i < points; ++i) {
    const KillPoint point = {.scenario = scenario,
                             .call = 1 + i * whole.calls / points,
                             .death = static_cast<Death>(i % 3),
                             .seed = i};
    tally.Add(absl::StrCat("call ", point.call, ", seed ", i), runs.Kill(point));
  }
  return tally;
}

constexpr uint64_t kPoints = 20;
// A run makes fewer calls with another seed, or when more callers share a turn; then the last of
// them do not come.
constexpr uint64_t kKilledAtLeast = kPoints / 2;

TEST(KillTest, NothingIsLostDoubledOrReorderedByAKillFromTheFirstFileOn) {
  const Tally tally = KillAtSome(Scenario::kFresh, kPoints);
  EXPECT_EQ(tally.failures, "");
  EXPECT_GE(tally.killed, kKilledAtLeast);
}

TEST(KillTest, NothingIsLostDoubledOrReorderedByAKillAfterOtherKills) {
  const Tally tally = KillAtSome(Scenario::kRestart, kPoints);
  EXPECT_EQ(tally.failures, "");
  EXPECT_GE(tally.killed, kKilledAtLeast);
}

TEST(KillTest, NothingIsLostDoubledOrReorderedByAKillAroundAReopening) {
  const Tally tally = KillAtSome(Scenario::kReopen, kPoints);
  EXPECT_EQ(tally.failures, "");
  EXPECT_GE(tally.killed, kKilledAtLeast);
}

}  // namespace
}  // namespace callboard::crash
