// The limits of a process, and the options of a Flow.

#ifndef CALLBOARD_LIBS_FLOW_LIMITS_H_
#define CALLBOARD_LIBS_FLOW_LIMITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace callboard::flow {

// ---- Limits of a process ----
//
// Computed from its settings and the machine. All other code uses these values unchanged.

// The resources of the machine that the process may use.
struct Machine {
  uint32_t processors = 1;
  uint64_t memory_bytes = 0;
  // Threads that the operating system can keep busy with I/O; the number of processors if unknown.
  uint32_t pool_threads = 1;
};

struct ThreadSettings {
  // 0 means one per processor, or 1 with `low_resource`.
  uint32_t threads = 0;
  // Ignores the caps by pool threads and memory.
  bool io_oversubscribe = false;
  // Uses as few resources as possible.
  bool low_resource = false;
};

// The largest number of threads that a setting can request.
inline constexpr uint32_t kThreadsMax = 1024;
// More concurrent I/O gains nothing on any machine.
inline constexpr uint32_t kIoMax = 64;

struct LaneLimit {
  // Jobs that run at a time.
  uint32_t concurrency = 1;
  // Jobs that wait to run. Callers with more jobs wait or get RESOURCE_EXHAUSTED.
  uint32_t max_pending = 1;

  friend bool operator==(const LaneLimit&, const LaneLimit&) = default;
};

struct Limits {
  LaneLimit cpu = {};
  LaneLimit io = {};
  // For jobs that wait for processes. A separate lane, so that file I/O does not delay them.
  LaneLimit proc = {};

  friend bool operator==(const Limits&, const Limits&) = default;
};

// Returns the most concurrent I/O that is useful: four operations per pool thread, fewer if memory
// is short.
uint32_t IoCap(const Machine& machine);

Limits ComputeLimits(const ThreadSettings& settings, const Machine& machine);

// Returns the limit of a lane that is not a standard lane and runs `concurrency` jobs at a time.
LaneLimit NamedLaneLimit(uint32_t concurrency);

// ---- Options of a Flow ----

// Jobs of a higher priority run first, until a lane of a lower priority starves.
enum class Priority { kLow, kNormal, kHigh };

// Shares of the resources that all lanes of a process have in common.
struct Tokens {
  uint32_t cpu = 0;
  uint32_t io = 0;
  uint32_t memory = 0;

  friend bool operator==(const Tokens&, const Tokens&) = default;
};

struct LaneOptions {
  std::string name = {};
  LaneLimit limit = {};
  Priority priority = Priority::kNormal;
  // Tokens that each job holds while it runs. Capped at `FlowOptions::tokens`, so that no lane
  // waits forever.
  Tokens demand = {};
};

struct FlowOptions {
  std::vector<LaneOptions> lanes = {};
  // The tokens of the process. If unset, lanes are plain: each observes only its own limit.
  std::optional<Tokens> tokens = {};
  // A lane starves if it has pending jobs and none of them was started for this long. Then one of
  // its jobs goes before every priority, and tokens are kept free for it.
  absl::Duration starvation = absl::Seconds(5);
};

// Returns the lanes io, cpu and proc.
std::vector<LaneOptions> StandardLanes(const Limits& limits);

// Returns as many cpu and io tokens as the standard lanes run jobs at a time, and one memory token
// per GiB.
Tokens ComputeTokens(const Limits& limits, const Machine& machine);

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_LIMITS_H_
