// Value types of the queue: its options and its status, and the rate at which it drains.

#ifndef CALLBOARD_LIBS_CORE_QUEUE_H_
#define CALLBOARD_LIBS_CORE_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::core {

// Policy for a submit while the queue is full.
enum class QueuePolicy { kReject, kBlock, kDropOldest, kDropLatest };
constexpr absl::string_view Name(QueuePolicy policy) {
  switch (policy) {
    case QueuePolicy::kReject:
      return "reject";
    case QueuePolicy::kBlock:
      return "block";
    case QueuePolicy::kDropOldest:
      return "drop-oldest";
    case QueuePolicy::kDropLatest:
      return "drop-latest";
  }
  return "";
}

struct QueueOptions {
  // Bound on pending tasks; 0 means none.
  uint32_t max_size = 50;
  QueuePolicy policy = QueuePolicy::kReject;
  // Default of a task's max_attempts.
  uint32_t max_attempts = 3;
  // How long the director waits for the answer to a start before it sends the start again.
  absl::Duration dispatch_timeout = absl::Seconds(30);
  // Bounds on the number of waiters and on the memory that their submits hold.
  uint32_t max_waiters = 1000;
  uint64_t max_waiting_bytes = 64 << 20;
  // Share of max_size that the scheduler's tasks may hold.
  double scheduler_share = 0.8;
  // True if a submit may choose drop-oldest.
  bool allow_evict = false;

  friend bool operator==(const QueueOptions&, const QueueOptions&) = default;
};

// Timeouts of leases. The director configures them and sends them to each agent when a Session
// opens.
struct LeaseOptions {
  absl::Duration heartbeat = absl::Seconds(15);
  // The agent kills its runs this long after it sent the last heartbeat that was acknowledged.
  absl::Duration self_fence = absl::Seconds(50);
  // The director gives a run up this long after the last heartbeat that lists it.
  absl::Duration redispatch_after = absl::Seconds(75);
  // Time between SIGTERM and SIGKILL.
  absl::Duration kill_grace = absl::Seconds(10);

  friend bool operator==(const LeaseOptions&, const LeaseOptions&) = default;
};

// How long and how many finished tasks are kept. A task is deleted when either limit is exceeded.
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

// Number of live tasks with a common key.
struct LiveCount {
  uint64_t queued = 0;
  uint64_t running = 0;
};

// The caller, reason and time of a change to one of the queue's switches.
struct SwitchCause {
  std::string who = {};
  std::string why = {};
  absl::Time at = {};

  friend bool operator==(const SwitchCause&, const SwitchCause&) = default;
};

struct QueueStatus {
  QueueOptions options;
  StateCounts counts;
  // Pending tasks that wait only for a free slot.
  uint32_t ready = 0;
  // Pending tasks that must not start yet.
  uint32_t delayed = 0;
  uint32_t waiting = 0;
  uint32_t tickets = 0;
  uint32_t max_in_flight = 0;
  // Since the store was created.
  uint64_t dispatches_total = 0;
  absl::Duration oldest_age;
  bool paused = false;
  bool draining = false;
  // Absent if the switch is off or its cause is unknown.
  std::optional<SwitchCause> pause;
  std::optional<SwitchCause> drain;
  double drain_rate_per_second = 0;
  std::map<std::string, LiveCount> sources;
  std::map<std::string, LiveCount> fairness_keys;

  uint64_t in_flight() const { return counts.dispatching + counts.working; }
  // Returns true if there are no live tasks and no waiters.
  bool is_idle() const { return counts.pending == 0 && in_flight() == 0 && waiting == 0; }
};

// Measures how fast a queue drains: freed places per second, as an average that decays
// exponentially. An event of one minute ago has about a third of its weight.
//
// Not thread-safe.
class DrainRate {
 public:
  // Records that one place became free. REQUIRES: `now` does not decrease from call to call.
  void Record(absl::Duration now);

  // Returns 0 if no place has become free yet.
  double PerSecond(absl::Duration now) const;

  // Estimates the time until the next place becomes free: 1 s to 1 min, and 5 s if nothing has been
  // measured.
  absl::Duration RetryAfter(absl::Duration now) const;

 private:
  double rate_ = 0;
  absl::Duration recorded_at_;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_QUEUE_H_
