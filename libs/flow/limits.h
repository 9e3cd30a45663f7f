// How much a process may do at once, derived in one place from what was set and from the machine.
// Everybody else takes these values as they are.
#ifndef CALLBOARD_LIBS_FLOW_LIMITS_H_
#define CALLBOARD_LIBS_FLOW_LIMITS_H_

#include <cstdint>

namespace callboard::flow {

// What the process may use of the machine it runs on.
struct Machine {
  uint32_t processors = 1;
  uint64_t memory_bytes = 0;
  // Threads that the operating system can keep busy with I/O; as many as processors unless known.
  uint32_t pool_threads = 1;
};

struct ThreadSettings {
  // 0: as many as processors, or one where resources are low.
  uint32_t threads = 0;
  // Lifts the cap that follows from pool and memory.
  bool io_oversubscribe = false;
  // Uses as little as possible.
  bool low_resource = false;
};

// No setting asks for more.
inline constexpr uint32_t kThreadsMax = 1024;
// Beyond it more I/O at once gains nothing, whatever the machine.
inline constexpr uint32_t kIoMax = 64;

struct LaneLimit {
  // Pieces of work that run at once.
  uint32_t concurrency = 1;
  // Pieces of work that wait for their turn; who has more waits or is refused.
  uint32_t max_pending = 1;

  friend bool operator==(const LaneLimit&, const LaneLimit&) = default;
};

struct Limits {
  LaneLimit cpu = {};
  LaneLimit io = {};
  // For work that waits for processes: files that keep `io` busy do not hold it up.
  LaneLimit proc = {};

  friend bool operator==(const Limits&, const Limits&) = default;
};

// The most I/O at once that helps: four pieces for each thread of the pool, fewer where memory is
// short.
uint32_t IoCap(const Machine& machine);

Limits LimitsFor(const ThreadSettings& settings, const Machine& machine);

// Of a lane by any other name that runs `concurrency` pieces of work at once.
LaneLimit NamedLaneLimit(uint32_t concurrency);

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_LIMITS_H_
