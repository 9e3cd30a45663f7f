#ifndef CALLBOARD_TESTS_SIMULATION_SETTINGS_H_
#define CALLBOARD_TESTS_SIMULATION_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "libs/director/engine_types.h"

namespace callboard::simulation {

// The settings of one simulation. A seed determines all of them. About half of the features are
// left out of each simulation, so that rare combinations of the others occur.
struct Settings {
  static Settings FromSeed(uint64_t seed);

  // Returns a readable text.
  std::string ToString() const;

  uint64_t seed = 0;
  // Duration of the phase with faults; then comes a quiet phase.
  absl::Duration noisy_time = {};

  // Participants.
  int agents = 1;
  int slots = 1;
  int callers = 1;
  int submits_per_caller = 1;
  director::EngineOptions engine = {};

  // Probability, per message, that the network loses it, repeats it, or delays it.
  double lost = 0;
  double repeated = 0;
  double held_up = 0;
  // Mean time between events of a kind, over the whole simulation; infinite for no events.
  absl::Duration between_director_crashes = absl::InfiniteDuration();
  absl::Duration between_agent_crashes = absl::InfiniteDuration();
  // Whether the first agent's machine does not come back after its first crash.
  bool first_agent_dies = false;
  absl::Duration between_agent_freezes = absl::InfiniteDuration();
  absl::Duration between_partitions = absl::InfiniteDuration();
  absl::Duration between_session_breaks = absl::InfiniteDuration();
  absl::Duration between_clock_jumps = absl::InfiniteDuration();
  absl::Duration between_operator_acts = absl::InfiniteDuration();
  absl::Duration between_full_disks = absl::InfiniteDuration();
  // Probability, per commit: it fails and writes nothing, or writes everything; it takes long; the
  // process dies before or after it, or while it sends the effects.
  double commit_fails = 0;
  double commit_fails_but_wrote = 0;
  double commit_is_slow = 0;
  double dies_at_commit = 0;
  // How much the agents' clocks run fast or slow.
  double clock_drift = 0;

  // Probability, per start, that the agent rejects it in one way or another although it has a free
  // slot.
  double answers_busy = 0;
  double answers_error = 0;
  double answers_rejected = 0;
  // Whether the last agent ends its Session on each copy of a start, and whether it ignores starts
  // and reopens its Session every few seconds. Its instance id stays the same.
  bool ends_session_on_start = false;
  bool reopens_session = false;
  // Probability, per run: it fails; it lasts longer than its timeout and the agent does not notice.
  double run_fails = 0;
  double run_hangs = 0;
  // Probability, per run, that the agent accepts it and then cannot start it.
  double run_cannot_begin = 0;

  // Probability, per submit or caller, that it uses the feature.
  double cancels = 0;
  double leaves = 0;
  double repeats_request = 0;
  double uses_session = 0;
  double uses_overlap = 0;
  double uses_ticket = 0;
  double uses_deadline = 0;
  double uses_delay = 0;
  double uses_labels = 0;
  double is_scheduler = 0;
  double requeues_when_lost = 0;
  double redrives = 0;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SETTINGS_H_
