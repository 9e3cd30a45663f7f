#ifndef CALLBOARD_TESTS_SIMULATION_SIMULATION_H_
#define CALLBOARD_TESTS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/time/time.h"

namespace callboard::simulation {

// What happened in a world.
struct Report {
  // The first broken promise; empty when all were kept.
  std::string failure = {};
  // Equal for two runs of one seed.
  uint64_t hash = 0;
  uint64_t steps = 0;
  uint64_t turns = 0;
  uint64_t tasks = 0;
  uint64_t director_crashes = 0;
  uint64_t agent_crashes = 0;
  uint64_t partitions = 0;
  absl::Duration time = {};

  // Adds what happened in another world; its hash and failure are its own.
  void Add(const Report& other);
  // What happened, for people.
  std::string Counts() const;
};

// Lets the world of a seed run: first with everything that its settings allow to go wrong, then,
// with nothing going wrong any more, until all is over. Stops at the first broken promise. Tells of
// it in `log`, if there is one.
Report Simulate(uint64_t seed, std::ostream* log = nullptr);

// How to see a world again, for people.
std::string ReplayHint(uint64_t seed);

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATION_H_
