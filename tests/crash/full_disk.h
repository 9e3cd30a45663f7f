#ifndef CALLBOARD_TESTS_CRASH_FULL_DISK_H_
#define CALLBOARD_TESTS_CRASH_FULL_DISK_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "tests/crash/history_checker.h"

namespace callboard::crash {

// What became of a director whose disk was full for a while.
struct FullDiskReport {
  // Submits while it was full: refused as such, and left open.
  uint64_t refused = 0;
  uint64_t open = 0;
  // Reads meanwhile.
  uint64_t reads = 0;
  uint64_t failed_reads = 0;
  // From the moment there was space until a submit was accepted.
  absl::Duration until_writable = absl::InfiniteDuration();
  // What was found while it was full, afterwards, and by the next director.
  Verdict while_full = {};
  Verdict afterwards = {};
  Verdict after_restart = {};
  // How it ended.
  int exit_code = -1;

  std::string ToString() const;
};

// What the disk is short of.
enum class Shortage { kBytes, kFiles };

// Runs a director under load on a small disk at `folder`, which gets full, and is not after
// `full_for`. REQUIRES: the process has one thread.
FullDiskReport FillDisk(const std::filesystem::path& folder, absl::Duration full_for,
                        Shortage shortage = Shortage::kBytes);

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_FULL_DISK_H_
