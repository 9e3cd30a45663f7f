#ifndef CALLBOARD_TESTS_SIMULATION_SETTINGS_H_
#define CALLBOARD_TESTS_SIMULATION_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "libs/director/engine.h"

namespace callboard::simulation {

// What one world is like. A seed chooses all of it, and leaves about half of the features out of
// each world, so that rare combinations of the others get room.
struct Settings {
  static Settings FromSeed(uint64_t seed);

  // For people, on a few lines.
  std::string ToString() const;

  uint64_t seed = 0;
  // The part of a world's time in which things go wrong; then comes a quiet one.
  absl::Duration noisy_time = {};

  // Who is there.
  int agents = 1;
  int slots = 1;
  int callers = 1;
  int submits_per_caller = 1;
  director::EngineOptions engine = {};

  // How often, per message, the network loses it, repeats it, or holds it up for a while.
  double lost = 0;
  double repeated = 0;
  double held_up = 0;
  // Mean time between events of a kind, over the whole world; infinite when there are none.
  absl::Duration between_director_crashes = absl::InfiniteDuration();
  absl::Duration between_agent_crashes = absl::InfiniteDuration();
  // Whether the first agent's machine never comes back from its first crash.
  bool first_agent_dies = false;
  absl::Duration between_agent_freezes = absl::InfiniteDuration();
  absl::Duration between_partitions = absl::InfiniteDuration();
  absl::Duration between_session_breaks = absl::InfiniteDuration();
  absl::Duration between_clock_jumps = absl::InfiniteDuration();
  absl::Duration between_operator_acts = absl::InfiniteDuration();
  absl::Duration between_full_disks = absl::InfiniteDuration();
  // Per commit: it fails and nothing is written, or everything; it takes long; the process dies
  // before or after it, or while it tells the world.
  double commit_fails = 0;
  double commit_fails_but_wrote = 0;
  double commit_is_slow = 0;
  double dies_at_commit = 0;
  // How far the agents' clocks run fast or slow.
  double clock_drift = 0;

  // Per start: the agent refuses it in one way or another although it has room.
  double answers_busy = 0;
  double answers_error = 0;
  double answers_rejected = 0;
  // Whether the last agent ends its Session on each copy of a start; whether it ignores starts and
  // reopens its Session every few seconds. Its instance id stays the same.
  bool ends_session_on_start = false;
  bool reopens_session = false;
  // Per run: it fails; it lasts longer than its timeout, and the agent does not notice.
  double run_fails = 0;
  double run_hangs = 0;
  // Per run: its agent accepts it, and can begin nothing of it.
  double run_cannot_begin = 0;

  // Per submit or caller: whether such things are asked for.
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
