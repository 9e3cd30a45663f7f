#include "libs/adapters/system_machine/system_machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"

namespace callboard::adapters {
namespace {

// The numbers in a file, in order, up to the first word that is none: `max` is no limit.
std::vector<uint64_t> NumbersIn(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<uint64_t> numbers;
  std::string word;
  uint64_t number = 0;
  while (file >> word && absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  return numbers;
}

std::optional<uint64_t> MemoryLimit(const std::filesystem::path& folder) {
  for (const char* name : {"memory.max", "memory/memory.limit_in_bytes"}) {
    if (const std::vector<uint64_t> bytes = NumbersIn(folder / name); !bytes.empty()) {
      return bytes.front();
    }
  }
  return std::nullopt;
}

// Time on processors that the group gets in each period: a part of one counts as one.
std::optional<uint64_t> ProcessorLimit(const std::filesystem::path& folder) {
  std::vector<uint64_t> share = NumbersIn(folder / "cpu.max");
  if (share.empty()) {
    // -1, no number here, stands for no limit.
    share = NumbersIn(folder / "cpu/cpu.cfs_quota_us");
    for (const uint64_t period : NumbersIn(folder / "cpu/cpu.cfs_period_us")) {
      share.push_back(period);
    }
    // A period without a share.
    if (share.size() == 1) share.clear();
  }
  if (share.size() < 2 || share[1] == 0) return std::nullopt;
  return std::max<uint64_t>(1, (share[0] + share[1] - 1) / share[1]);
}

uint32_t Processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    return static_cast<uint32_t>(CPU_COUNT(&allowed));
  }
  return static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace

flow::Machine WithinGroup(flow::Machine machine, const std::filesystem::path& folder) {
  if (const std::optional<uint64_t> bytes = MemoryLimit(folder)) {
    machine.memory_bytes = std::min(machine.memory_bytes, *bytes);
  }
  if (const std::optional<uint64_t> processors = ProcessorLimit(folder)) {
    machine.processors = static_cast<uint32_t>(std::min<uint64_t>(machine.processors, *processors));
    machine.pool_threads = std::min(machine.pool_threads, machine.processors);
  }
  return machine;
}

flow::Machine ThisMachine() {
  const uint32_t processors = Processors();
  const auto pages = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  const auto page_bytes = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  return WithinGroup(
      {.processors = processors, .memory_bytes = pages * page_bytes, .pool_threads = processors},
      "/sys/fs/cgroup");
}

}  // namespace callboard::adapters
