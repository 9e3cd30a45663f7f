#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_SETTINGS_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/core/job.h"
#include "libs/testing/fake_random.h"

namespace callboard::simulation::cron {

// What one world of schedulers is like. A seed chooses all of it, and leaves about half of the
// trouble out of each.
struct Settings {
  static Settings FromSeed(uint64_t seed);

  uint64_t seed = 0;
  // The time in which things go wrong; then comes a quiet one.
  absl::Duration noisy_time = {};
  int replicas = 1;
  // The director's bound, and what its one agent runs at once.
  uint32_t max_size = 50;
  uint32_t slots = 1;

  // Per call to the director: it, or its answer, is lost; the connection breaks after it was
  // written; it takes long.
  double call_lost = 0;
  double answer_lost = 0;
  double connection_breaks = 0;
  double call_is_slow = 0;
  // Per commit: it fails, and nothing is written or everything; the process dies with it.
  double commit_fails = 0;
  double commit_fails_but_wrote = 0;
  double dies_at_commit = 0;
  // Per call: the process dies when it is made.
  double dies_at_call = 0;
  double run_fails = 0;
  // Mean time between events of a kind; infinite when there are none.
  absl::Duration between_crashes = absl::InfiniteDuration();
  absl::Duration between_outages = absl::InfiniteDuration();
  absl::Duration between_drains = absl::InfiniteDuration();
  absl::Duration between_clock_jumps = absl::InfiniteDuration();
  absl::Duration between_file_changes = absl::InfiniteDuration();
  absl::Duration between_pauses = absl::InfiniteDuration();
  absl::Duration between_people = absl::InfiniteDuration();
  absl::Duration between_backfills = absl::InfiniteDuration();
  absl::Duration between_triggers = absl::InfiniteDuration();
};

// A job with everything about it chosen at random.
core::Job RandomJob(const std::string& name, test::FakeRandom& random);

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_SETTINGS_H_
