#include "libs/flow/limits.h"

#include <algorithm>

namespace callboard::flow {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// Pending work for each piece that runs: enough to go on with while more is fetched.
constexpr uint32_t kPendingPerRunning = 4;
// A thread that waits for one piece of I/O can have others under way.
constexpr uint32_t kIoPerPoolThread = 4;

LaneLimit WithPending(uint32_t concurrency, uint32_t pending_min) {
  return {concurrency, std::max(pending_min, concurrency * kPendingPerRunning)};
}

uint32_t MemoryCap(uint64_t memory_bytes) {
  if (memory_bytes < 16 * kGiB) return 16;
  if (memory_bytes < 32 * kGiB) return 32;
  return 64;
}

uint32_t Threads(const ThreadSettings& settings, const Machine& machine) {
  const uint32_t by_default = settings.low_resource ? 1 : machine.processors;
  const uint32_t threads =
      std::clamp(settings.threads == 0 ? by_default : settings.threads, 1u, kThreadsMax);
  return settings.io_oversubscribe ? threads : std::min(threads, IoCap(machine));
}

}  // namespace

uint32_t IoCap(const Machine& machine) {
  const uint32_t pool_threads = std::clamp(machine.pool_threads, 1u, kThreadsMax);
  return std::min({kIoMax, pool_threads * kIoPerPoolThread, MemoryCap(machine.memory_bytes)});
}

Limits LimitsFor(const ThreadSettings& settings, const Machine& machine) {
  const uint32_t threads = Threads(settings, machine);
  const uint32_t processes = settings.low_resource ? 1 : std::clamp(machine.processors, 1u, 4u);
  return {.cpu = WithPending(threads, 16),
          .io = WithPending(std::min(threads, kIoMax), 8),
          .proc = WithPending(processes, kPendingPerRunning)};
}

LaneLimit NamedLaneLimit(uint32_t concurrency) { return WithPending(concurrency, 16); }

}  // namespace callboard::flow
