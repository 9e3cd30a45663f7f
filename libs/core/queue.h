// The queue as values: its bounds, and what can be said of it at one moment.
#ifndef CALLBOARD_LIBS_CORE_QUEUE_H_
#define CALLBOARD_LIBS_CORE_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace callboard::core {

// What happens to a submit that finds the queue full.
enum class QueuePolicy { kReject, kBlock, kDropOldest, kDropLatest };

struct QueueOptions {
  // Bound on pending tasks; 0 means none.
  uint32_t max_size = 50;
  QueuePolicy policy = QueuePolicy::kReject;
  // Attempts of a task that does not say.
  uint32_t max_attempts = 3;
  // How long an agent may take to answer a start before it is sent again.
  absl::Duration dispatch_timeout = absl::Seconds(30);
  // Bounds on callers that wait for a place, and on what they hold in memory.
  uint32_t max_waiters = 1000;
  uint64_t max_waiting_bytes = 64 << 20;
  // Part of max_size that tasks of the scheduler may hold.
  double scheduler_share = 0.8;
  // Whether a submit may ask for drop-oldest.
  bool allow_evict = false;

  friend bool operator==(const QueueOptions&, const QueueOptions&) = default;
};

// When the two ends of a Session give each other up. The director's settings; agents learn them
// when a Session opens.
struct LeaseOptions {
  absl::Duration heartbeat = absl::Seconds(15);
  // An agent kills its task so long after the time of the last acknowledged heartbeat.
  absl::Duration self_fence = absl::Seconds(50);
  // The director gives the task up so long after the last heartbeat that lists it.
  absl::Duration redispatch_after = absl::Seconds(75);
  // Between SIGTERM and SIGKILL.
  absl::Duration kill_grace = absl::Seconds(10);

  friend bool operator==(const LeaseOptions&, const LeaseOptions&) = default;
};

// How long ended tasks are kept: whichever is less.
struct RetentionOptions {
  absl::Duration age = absl::Hours(7 * 24);
  uint32_t count = 10'000;

  friend bool operator==(const RetentionOptions&, const RetentionOptions&) = default;
};

// Number of tasks in each state.
struct StateCounts {
  uint64_t pending = 0;
  uint64_t dispatching = 0;
  uint64_t working = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t cancelled = 0;

  friend bool operator==(const StateCounts&, const StateCounts&) = default;
};

// Live tasks that share a key.
struct LiveCount {
  uint64_t queued = 0;
  uint64_t running = 0;
};

// Who changed a switch of the queue, why and when.
struct SwitchCause {
  std::string who = {};
  std::string why = {};
  absl::Time at = {};

  friend bool operator==(const SwitchCause&, const SwitchCause&) = default;
};

struct QueueStatus {
  QueueOptions options;
  StateCounts counts;
  // Pending tasks that start as soon as one of their agents has a free slot.
  uint32_t ready = 0;
  // Pending tasks whose time has not come.
  uint32_t delayed = 0;
  uint32_t waiting = 0;
  uint32_t tickets = 0;
  uint32_t max_in_flight = 0;
  // Since the store was created.
  uint64_t dispatches_total = 0;
  absl::Duration oldest_age;
  bool paused = false;
  bool draining = false;
  // Absent when the switch is off, or nobody is known to have set it.
  std::optional<SwitchCause> pause;
  std::optional<SwitchCause> drain;
  double drain_rate_per_second = 0;
  std::map<std::string, LiveCount> sources;
  std::map<std::string, LiveCount> fairness_keys;

  uint64_t in_flight() const { return counts.dispatching + counts.working; }
  // Nothing is there to be done, and nobody waits to bring something.
  bool is_idle() const { return counts.pending == 0 && in_flight() == 0 && waiting == 0; }
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_QUEUE_H_
