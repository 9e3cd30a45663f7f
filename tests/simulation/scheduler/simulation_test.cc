#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>

#include "tests/simulation/scheduler/world.h"

namespace callboard::simulation::cron {
namespace {

constexpr uint64_t kWorlds = 300;
// One of so many worlds is run twice.
constexpr uint64_t kRunTwice = 60;
// Seeds of worlds in which the product once broke a promise.
constexpr uint64_t kRegressions[] = {
    18,    // A submit was made again after a restart although its job was paused.
    220,   // What was open of a job that had no runs left stayed so.
    491,   // A job that left the file and came back, after its clock was set back, ran twice.
    2862,  // A clock was set far forward while an occurrence waited for its jitter, and back.
};

TEST(SchedulerSimulationTest, NoWorldBreaksAPromise) {
  Report all;
  for (uint64_t seed = 1; seed <= kWorlds; ++seed) {
    const Report report = Simulate(seed);
    ASSERT_EQ(report.failure, "") << "seed=" << seed << "\n" << ReplayHint(seed);
    all.Add(report);
  }
  std::cout << kWorlds << " worlds: " << all.Counts() << "\n";
  // A simulation in which nothing goes wrong shows nothing.
  EXPECT_GT(all.crashes, 10 * kWorlds);
  EXPECT_GT(all.tasks, 50 * kWorlds);
  EXPECT_GT(all.rows, 200 * kWorlds);
}

TEST(SchedulerSimulationTest, NoWorldThatEverBrokeAPromiseDoesAgain) {
  for (const uint64_t seed : kRegressions) {
    EXPECT_EQ(Simulate(seed).failure, "") << "seed=" << seed << "\n" << ReplayHint(seed);
  }
}

TEST(SchedulerSimulationTest, SameSeedIsTheSameWorld) {
  for (uint64_t seed = kRunTwice; seed <= kWorlds; seed += kRunTwice) {
    EXPECT_EQ(Simulate(seed).hash, Simulate(seed).hash) << "seed=" << seed;
  }
}

}  // namespace
}  // namespace callboard::simulation::cron
