// Runs simulations of schedulers: one, or many.
//
//   bazel run //tests/simulation/scheduler:simulate -- --seed=7301
//   bazel run //tests/simulation/scheduler:simulate -- --first=1 --count=100000
#include <csignal>
#include <cstdint>
#include <iostream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/simulation/scheduler/simulation.h"

namespace callboard::simulation::cron {
namespace {

volatile uint64_t current_seed = 0;

// A failed CHECK of the product ends the process: print the seed.
void OnAbort(int) {
  const std::string text = absl::StrCat("seed=", static_cast<uint64_t>(current_seed),
                                        ": a check failed\n", ReplayHint(current_seed), "\n");
  std::cerr << text << std::flush;
}

int Run(uint64_t first, uint64_t count) {
  std::signal(SIGABRT, OnAbort);
  Report all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    current_seed = seed;
    const Report report = Simulate(seed);
    all.Add(report);
    if (!report.failure.empty()) {
      std::cerr << "seed=" << seed << ": " << report.failure << "\n" << ReplayHint(seed) << "\n";
      return 1;
    }
    if ((seed - first + 1) % 1000 == 0) std::cerr << seed - first + 1 << " simulations\n";
  }
  std::cout << "no violation in " << count << " simulations: " << all.Counts() << "\n";
  return 0;
}

}  // namespace
}  // namespace callboard::simulation::cron

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
  return callboard::simulation::cron::Run(first, count);
}
