#ifndef CALLBOARD_TESTS_SIMULATION_SIMULATION_H_
#define CALLBOARD_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace callboard::simulation {

// The summary of a simulation.
struct Report {
  // The first violation; empty if there was none.
  std::string failure = {};
  // Equal for two simulations with the same seed.
  uint64_t hash = 0;
  uint64_t steps = 0;
  uint64_t turns = 0;
  uint64_t tasks = 0;
  uint64_t director_crashes = 0;
  uint64_t agent_crashes = 0;
  uint64_t partitions = 0;
  absl::Duration time = {};

  // Adds the counts of another simulation; hash and failure are not added.
  void Add(const Report& other);
  // Returns the counts as readable text.
  std::string Counts() const;
};

// Runs the simulation of a seed: first with all faults that its settings allow, then without faults
// until all tasks have ended. Stops at the first violation. Writes notable events to `log`, if
// there is one.
Report Simulate(uint64_t seed, std::ostream* log = nullptr);

// Returns instructions to replay a simulation.
std::string ReplayHint(uint64_t seed);

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATION_H_
