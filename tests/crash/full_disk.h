#ifndef CALLBOARD_TESTS_CRASH_FULL_DISK_H_
#define CALLBOARD_TESTS_CRASH_FULL_DISK_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "tests/crash/history_checker.h"

namespace callboard::crash {

// The results of a director whose disk was full for a while.
struct FullDiskReport {
  // Submits while the disk was full: rejected because of that, and without a clear answer.
  uint64_t rejected = 0;
  uint64_t open = 0;
  // Reads while the disk was full.
  uint64_t reads = 0;
  uint64_t failed_reads = 0;
  // Time from the moment the disk had space until a submit was accepted.
  absl::Duration until_writable = absl::InfiniteDuration();
  // Check results while the disk was full, afterwards, and after a restart.
  CheckResult while_full = {};
  CheckResult afterwards = {};
  CheckResult after_restart = {};
  // Exit code of the director.
  int exit_code = -1;

  std::string ToString() const;
};

// The resource that the disk runs out of.
enum class Shortage { kBytes, kFiles };

// Runs a director under load on a small disk at `folder`, which fills up and has space again after
// `full_for`. REQUIRES: the process has one thread.
FullDiskReport FillDisk(const std::filesystem::path& folder, absl::Duration full_for,
                        Shortage shortage = Shortage::kBytes);

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_FULL_DISK_H_
