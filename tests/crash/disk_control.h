// What the faulty disk and the test that uses it tell each other: a block of memory that both map,
// and the log of all that was done to the folder.
#ifndef CALLBOARD_TESTS_CRASH_DISK_CONTROL_H_
#define CALLBOARD_TESTS_CRASH_DISK_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace callboard::crash {

// Where the process finds both: the name of a folder.
inline constexpr char kDiskVariable[] = "FAULTY_DISK";
inline constexpr char kControlFile[] = "control";
inline constexpr char kLogFile[] = "log";

// In the folder of the disk: what the director calls its data_dir.
inline constexpr char kDataFolder[] = "data";

// When a process that is to die at a call does so. Only a write can be halfway through.
enum class Death : uint32_t { kBefore, kHalfway, kAfter };

// Zeros mean a disk without faults. Lock-free, so that it works between processes and outlives one
// that is killed.
struct DiskControl {
  // The folder whose files the disk holds.
  char folder[4096];
  // Grows with everything that happens, here and there: tells what came first.
  std::atomic<uint64_t> tick;

  // Calls until now that change files of the folder, make changes last, or send to a peer.
  std::atomic<uint64_t> calls;
  // The call at which the process kills itself; none when 0.
  std::atomic<uint64_t> die_at;
  std::atomic<Death> death;

  // How much longer every sync takes.
  std::atomic<uint32_t> sync_delay_ms;
  // And every so many-th of them; none when 0.
  std::atomic<uint32_t> spike_every;
  std::atomic<uint32_t> spike_delay_ms;
  std::atomic<uint64_t> syncs;
  // Syncs of the store's log that are to fail.
  std::atomic<uint32_t> log_syncs_to_fail;

  // How far the wall clock is wrong; the monotonic one is not.
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

// Before each call in the log; its path, its other path and its data follow.
struct DiskCallHeader {
  // When it was done, and begun.
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
