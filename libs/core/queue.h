// The queue as values: its bounds, and what can be said of it at one moment.
#ifndef CALLBOARD_LIBS_CORE_QUEUE_H_
#define CALLBOARD_LIBS_CORE_QUEUE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace callboard::core {

// What happens to a submit that finds the queue full.
enum class QueuePolicy { kReject, kBlock, kDropOldest, kDropLatest };

struct QueueOptions {
  // Bound on pending tasks; 0 means none.
  uint32_t max_size = 50;
  QueuePolicy policy = QueuePolicy::kReject;
};

// Number of tasks in each state.
struct StateCounts {
  uint64_t pending = 0;
  uint64_t dispatching = 0;
  uint64_t working = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t cancelled = 0;
};

// Live tasks that share a key.
struct LiveCount {
  uint64_t queued = 0;
  uint64_t running = 0;
};

struct QueueStatus {
  QueueOptions options;
  StateCounts counts;
  uint32_t ready = 0;
  uint32_t delayed = 0;
  uint32_t waiting = 0;
  uint32_t tickets = 0;
  uint32_t max_in_flight = 0;
  uint64_t dispatched_count = 0;
  absl::Duration oldest_age;
  bool paused = false;
  bool draining = false;
  double drain_rate_per_second = 0;
  std::map<std::string, LiveCount> sources;
  std::map<std::string, LiveCount> fairness_keys;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_QUEUE_H_
