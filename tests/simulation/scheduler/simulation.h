#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_SIMULATION_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_SIMULATION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace callboard::simulation::cron {

// The summary of a simulation.
struct Report {
  std::string failure = {};
  // Equal for two simulations with the same seed.
  uint64_t hash = 0;
  uint64_t rows = 0;
  uint64_t tasks = 0;
  uint64_t crashes = 0;
  absl::Duration time = {};

  void Add(const Report& other);
  std::string Counts() const;
};

// Runs the simulation of a seed: first with all faults that its settings allow, then without faults
// until all occurrences are decided. Stops at the first violation.
Report Simulate(uint64_t seed);

std::string ReplayHint(uint64_t seed);

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_SIMULATION_H_
