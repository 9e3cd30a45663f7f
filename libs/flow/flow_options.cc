#include "libs/flow/flow_options.h"

#include <algorithm>

namespace callboard::flow {

std::vector<LaneOptions> StandardLanes(const Limits& limits) {
  return {{.name = "io", .limit = limits.io, .demand = {.io = 1}},
          {.name = "cpu", .limit = limits.cpu, .demand = {.cpu = 1}},
          // Who waits for processes holds up nobody who computes.
          {.name = "proc", .limit = limits.proc}};
}

Tokens TokensFor(const Limits& limits, const Machine& machine) {
  const auto gigabytes =
      static_cast<uint32_t>(std::min<uint64_t>(machine.memory_bytes >> 30, 1024));
  return {.cpu = limits.cpu.concurrency,
          .io = limits.io.concurrency,
          .memory = std::max(1u, gigabytes)};
}

}  // namespace callboard::flow
