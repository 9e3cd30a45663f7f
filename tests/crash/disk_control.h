// The interface between the faulty disk and the test that uses it: a block of shared memory, and
// the log of all changes to the folder.
#ifndef CALLBOARD_TESTS_CRASH_DISK_CONTROL_H_
#define CALLBOARD_TESTS_CRASH_DISK_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace callboard::crash {

// The environment variable with the folder that contains both.
inline constexpr char kDiskVariable[] = "FAULTY_DISK";
inline constexpr char kControlFile[] = "control";
inline constexpr char kLogFile[] = "log";

// The director's data_dir, below the folder of the disk.
inline constexpr char kDataFolder[] = "data";

// The time of death at the chosen call. Only a write can be halfway through.
enum class DeathTime : uint32_t { kBefore, kHalfway, kAfter };

// All zeros mean a disk without faults. Lock-free, so that it works between processes and survives
// the death of one.
struct DiskControl {
  // The folder that is on the disk.
  char folder[4096];
  // Counts the events of both processes, to order them.
  std::atomic<uint64_t> tick;

  // Number of calls so far that change files of the folder, make changes durable, or send to a
  // peer.
  std::atomic<uint64_t> calls;
  // The call at which the process kills itself; 0 for none.
  std::atomic<uint64_t> die_at;
  std::atomic<DeathTime> death;

  // Additional time of every sync.
  std::atomic<uint32_t> sync_delay_ms;
  // Additional time of every `spike_every`-th sync; no such sync if 0.
  std::atomic<uint32_t> spike_every;
  std::atomic<uint32_t> spike_delay_ms;
  std::atomic<uint64_t> syncs;
  // Number of syncs of the store's log that will fail.
  std::atomic<uint32_t> log_syncs_to_fail;

  // Offset of the wall clock; the monotonic clock is correct.
  std::atomic<int64_t> wall_offset_s;
};

enum class DiskAction : uint32_t {
  kCreate,
  kMakeFolder,
  kWrite,
  // To `offset` bytes.
  kTruncate,
  kSync,
  // To `other`.
  kRename,
  // As `other`.
  kLink,
  kRemove,
  kSend,
};

// Precedes each call in the log, followed by path, other path and data.
struct DiskCallHeader {
  // Ticks at which the call ended and began.
  uint64_t tick;
  uint64_t begun;
  DiskAction action;
  uint32_t path_bytes;
  uint32_t other_bytes;
  uint32_t data_bytes;
  uint64_t offset;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_DISK_CONTROL_H_
