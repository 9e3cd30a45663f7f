#include "libs/flow/limits.h"

#include <algorithm>

namespace callboard::flow {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// Pending jobs per running job: enough to keep the lane busy while callers bring more.
constexpr uint32_t kPendingPerRunning = 4;
// One thread can have several I/O operations in progress.
constexpr uint32_t kIoPerPoolThread = 4;

LaneLimit MakeLaneLimit(uint32_t concurrency, uint32_t pending_min) {
  return {concurrency, std::max(pending_min, concurrency * kPendingPerRunning)};
}

uint32_t MemoryCap(uint64_t memory_bytes) {
  if (memory_bytes < 16 * kGiB) return 16;
  if (memory_bytes < 32 * kGiB) return 32;
  return 64;
}

uint32_t ComputeThreads(const ThreadSettings& settings, const Machine& machine) {
  const uint32_t default_threads = settings.low_resource ? 1 : machine.processors;
  const uint32_t threads =
      std::clamp(settings.threads == 0 ? default_threads : settings.threads, 1u, kThreadsMax);
  return settings.io_oversubscribe ? threads : std::min(threads, IoCap(machine));
}

}  // namespace

uint32_t IoCap(const Machine& machine) {
  const uint32_t pool_threads = std::clamp(machine.pool_threads, 1u, kThreadsMax);
  return std::min({kIoMax, pool_threads * kIoPerPoolThread, MemoryCap(machine.memory_bytes)});
}

Limits ComputeLimits(const ThreadSettings& settings, const Machine& machine) {
  const uint32_t threads = ComputeThreads(settings, machine);
  const uint32_t processes = settings.low_resource ? 1 : std::clamp(machine.processors, 1u, 4u);
  return {.cpu = MakeLaneLimit(threads, 16),
          .io = MakeLaneLimit(std::min(threads, kIoMax), 8),
          .proc = MakeLaneLimit(processes, kPendingPerRunning)};
}

LaneLimit NamedLaneLimit(uint32_t concurrency) { return MakeLaneLimit(concurrency, 16); }

std::vector<LaneOptions> StandardLanes(const Limits& limits) {
  return {{.name = "io", .limit = limits.io, .demand = {.io = 1}},
          {.name = "cpu", .limit = limits.cpu, .demand = {.cpu = 1}},
          // Jobs that wait for processes use little CPU and I/O, so they need no tokens.
          {.name = "proc", .limit = limits.proc}};
}

Tokens ComputeTokens(const Limits& limits, const Machine& machine) {
  const auto gigabytes =
      static_cast<uint32_t>(std::min<uint64_t>(machine.memory_bytes >> 30, 1024));
  return {.cpu = limits.cpu.concurrency,
          .io = limits.io.concurrency,
          .memory = std::max(1u, gigabytes)};
}

}  // namespace callboard::flow
