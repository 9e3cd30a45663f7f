#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_SETTINGS_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/core/job.h"
#include "libs/testing/fake_environment.h"

namespace callboard::simulation::cron {

// The settings of one scheduler simulation. A seed determines all of them, and leaves about half of
// the faults out.
struct Settings {
  static Settings FromSeed(uint64_t seed);

  uint64_t seed = 0;
  // Duration of the phase with faults; then comes a quiet phase.
  absl::Duration noisy_time = {};
  int replicas = 1;
  // Bound of the director's queue, and slots of its only agent.
  uint32_t max_size = 50;
  uint32_t slots = 1;

  // Probability, per call to the director: the request or its answer is lost; the connection breaks
  // after the request was written; the call is slow.
  double call_lost = 0;
  double answer_lost = 0;
  double connection_breaks = 0;
  double call_is_slow = 0;
  // Probability, per commit: it fails and writes nothing or everything; the process dies with it.
  double commit_fails = 0;
  double commit_fails_but_wrote = 0;
  double dies_at_commit = 0;
  // Probability, per call, that the process dies when it makes the call.
  double dies_at_call = 0;
  double run_fails = 0;
  // Mean time between events of a kind; infinite for no events.
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

// Returns a job with random settings.
core::Job RandomJob(const std::string& name, test::FakeRandom& random);

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_SETTINGS_H_
