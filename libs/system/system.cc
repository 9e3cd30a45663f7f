#include "libs/system/system.h"

#include <sched.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "libs/base/check.h"

namespace callboard::system {

absl::Time SystemClock::WallNow() const { return absl::Now(); }

absl::Duration SystemClock::MonotonicNow() const {
  timespec now;
  CHECK_EQ(clock_gettime(CLOCK_BOOTTIME, &now), 0);
  return absl::DurationFromTimespec(now);
}

uint64_t SystemRandom::Next() {
  base::MutexLock lock(mutex_);
  if (left_ == 0) {
    // The kernel never returns fewer bytes for requests of up to 256 bytes.
    CHECK_EQ(getrandom(numbers_.data(), sizeof(numbers_), 0), ssize_t{sizeof(numbers_)});
    left_ = numbers_.size();
  }
  return numbers_[--left_];
}

namespace {

// Returns the numbers in a file, up to the first word that is not a number. `max`, which means no
// limit, is not a number.
std::vector<uint64_t> ReadNumbers(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<uint64_t> numbers;
  std::string word;
  uint64_t number = 0;
  while (file >> word && absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  return numbers;
}

std::optional<uint64_t> MemoryLimit(const std::filesystem::path& folder) {
  for (const char* name : {"memory.max", "memory/memory.limit_in_bytes"}) {
    if (const std::vector<uint64_t> bytes = ReadNumbers(folder / name); !bytes.empty()) {
      return bytes.front();
    }
  }
  return std::nullopt;
}

// Returns the number of processors that the group may use: its share of processor time per period,
// rounded up.
std::optional<uint64_t> ProcessorLimit(const std::filesystem::path& folder) {
  std::vector<uint64_t> share = ReadNumbers(folder / "cpu.max");
  if (share.empty()) {
    // -1 means no limit. It does not parse as an unsigned number.
    share = ReadNumbers(folder / "cpu/cpu.cfs_quota_us");
    for (const uint64_t period : ReadNumbers(folder / "cpu/cpu.cfs_period_us")) {
      share.push_back(period);
    }
    // Only a period and no share.
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

flow::Machine ApplyGroupLimits(flow::Machine machine, const std::filesystem::path& folder) {
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
  return ApplyGroupLimits(
      {.processors = processors, .memory_bytes = pages * page_bytes, .pool_threads = processors},
      "/sys/fs/cgroup");
}

}  // namespace callboard::system
