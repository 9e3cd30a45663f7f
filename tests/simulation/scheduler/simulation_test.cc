#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>

#include "tests/simulation/scheduler/simulation.h"

namespace callboard::simulation::cron {
namespace {

constexpr uint64_t kSimulations = 300;
// One of this many simulations is run twice.
constexpr uint64_t kRunTwice = 60;
// Seeds of simulations that once found a bug.
constexpr uint64_t kRegressions[] = {
    18,    // A submit was repeated after a restart although its job was paused.
    220,   // Open occurrences of a job without runs left stayed open.
    491,   // A job that left the file and came back, after its clock was set back, ran twice.
    2862,  // A clock was set far forward while an occurrence waited for its jitter, and back.
};

TEST(SchedulerSimulationTest, NoSeedViolatesAnInvariant) {
  Report all;
  for (uint64_t seed = 1; seed <= kSimulations; ++seed) {
    const Report report = Simulate(seed);
    ASSERT_EQ(report.failure, "") << "seed=" << seed << "\n" << ReplayHint(seed);
    all.Add(report);
  }
  std::cout << kSimulations << " simulations: " << all.Counts() << "\n";
  // A simulation without faults proves nothing.
  EXPECT_GT(all.crashes, 10 * kSimulations);
  EXPECT_GT(all.tasks, 50 * kSimulations);
  EXPECT_GT(all.rows, 200 * kSimulations);
}

TEST(SchedulerSimulationTest, RegressionSeedsPass) {
  for (const uint64_t seed : kRegressions) {
    EXPECT_EQ(Simulate(seed).failure, "") << "seed=" << seed << "\n" << ReplayHint(seed);
  }
}

TEST(SchedulerSimulationTest, SameSeedGivesTheSameRun) {
  for (uint64_t seed = kRunTwice; seed <= kSimulations; seed += kRunTwice) {
    EXPECT_EQ(Simulate(seed).hash, Simulate(seed).hash) << "seed=" << seed;
  }
}

}  // namespace
}  // namespace callboard::simulation::cron
