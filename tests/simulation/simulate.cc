// Runs worlds: one with everything that happens in it, or many.
//
//   bazel run //tests/simulation:simulate -- --seed=7301
//   bazel run //tests/simulation:simulate -- --first=1 --count=100000
#include <csignal>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/simulation/simulation.h"

namespace callboard::simulation {
namespace {

volatile uint64_t current_seed = 0;

// A check of the product that fails ends the process: say where.
void OnAbort(int) {
  const std::string text = absl::StrCat("seed=", static_cast<uint64_t>(current_seed),
                                        ": a check failed\n", ReplayHint(current_seed), "\n");
  std::cerr << text << std::flush;
}

struct Totals {
  uint64_t worlds = 0;
  uint64_t steps = 0;
  uint64_t turns = 0;
  uint64_t tasks = 0;
  uint64_t director_crashes = 0;
  uint64_t agent_crashes = 0;
  uint64_t partitions = 0;
  absl::Duration time;

  void Add(const Report& report) {
    ++worlds;
    steps += report.steps;
    turns += report.turns;
    tasks += report.tasks;
    director_crashes += report.director_crashes;
    agent_crashes += report.agent_crashes;
    partitions += report.partitions;
    time += report.time;
  }
};

int Run(uint64_t first, uint64_t count) {
  std::signal(SIGABRT, OnAbort);
  Totals totals;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    current_seed = seed;
    const Report report = Simulate(seed, count == 1 ? &std::cout : nullptr);
    totals.Add(report);
    if (!report.failure.empty()) {
      std::cerr << "seed=" << seed << ": " << report.failure << "\n" << ReplayHint(seed) << "\n";
      return 1;
    }
    if (count == 1) std::cout << "hash " << report.hash << "\n";
    if (totals.worlds % 1000 == 0) std::cerr << totals.worlds << " worlds\n";
  }
  std::cout << "no broken promise in " << totals.worlds
            << " worlds: " << absl::ToInt64Hours(totals.time) << " h, " << totals.steps
            << " steps, " << totals.turns << " turns, " << totals.tasks << " tasks, "
            << totals.director_crashes << " crashes of the director, " << totals.agent_crashes
            << " of agents, " << totals.partitions << " partitions\n";
  return 0;
}

}  // namespace
}  // namespace callboard::simulation

int main(int argc, char** argv) {
  uint64_t first = 1;
  uint64_t count = 1;
  for (int i = 1; i < argc; ++i) {
    absl::string_view flag = argv[i];
    uint64_t* value =
        absl::ConsumePrefix(&flag, "--seed=") || absl::ConsumePrefix(&flag, "--first=") ? &first
        : absl::ConsumePrefix(&flag, "--count=")                                        ? &count
                                                                                        : nullptr;
    if (value == nullptr || !absl::SimpleAtoi(flag, value)) {
      std::cerr << "usage: simulate --seed=N | --first=N --count=N\n";
      return 2;
    }
  }
  return callboard::simulation::Run(first, count);
}
