#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace callboard::simulation {
namespace {

constexpr uint64_t kSimulations = 2500;
// One of this many simulations is run twice.
constexpr uint64_t kRunTwice = 100;

// The seeds in regressions.txt: each line begins with a seed and continues with a description of
// the bug that it found.
std::vector<uint64_t> Regressions() {
  std::ifstream file("tests/simulation/regressions.txt");
  std::vector<uint64_t> seeds;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line.front() == '#') continue;
    uint64_t seed = 0;
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    EXPECT_TRUE(absl::SimpleAtoi(words.front(), &seed)) << line;
    seeds.push_back(seed);
  }
  return seeds;
}

TEST(SimulationTest, NoSeedViolatesAnInvariant) {
  Report all;
  for (uint64_t seed = 1; seed <= kSimulations; ++seed) {
    const Report report = Simulate(seed);
    ASSERT_EQ(report.failure, "") << "seed=" << seed << "\n" << ReplayHint(seed);
    all.Add(report);
  }
  std::cout << kSimulations << " simulations: " << all.Counts() << "\n";
  // A simulation without faults proves nothing.
  EXPECT_GT(all.director_crashes, kSimulations);
  EXPECT_GT(all.agent_crashes, kSimulations);
  EXPECT_GT(all.partitions, kSimulations);
  EXPECT_GT(all.tasks, 10 * kSimulations);
}

TEST(SimulationTest, RegressionSeedsPass) {
  const std::vector<uint64_t> seeds = Regressions();
  ASSERT_FALSE(seeds.empty());
  for (const uint64_t seed : seeds) {
    EXPECT_EQ(Simulate(seed).failure, "") << "seed=" << seed << "\n" << ReplayHint(seed);
  }
}

TEST(SimulationTest, SameSeedGivesTheSameRun) {
  for (uint64_t seed = kRunTwice; seed <= kSimulations; seed += kRunTwice) {
    EXPECT_EQ(Simulate(seed).hash, Simulate(seed).hash) << "seed=" << seed;
  }
}

}  // namespace
}  // namespace callboard::simulation
