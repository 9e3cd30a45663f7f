#ifndef CALLBOARD_TESTS_CRASH_DISK_H_
#define CALLBOARD_TESTS_CRASH_DISK_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/crash/disk_control.h"

namespace callboard::crash {

// A call of the log.
struct DiskCall {
  uint64_t tick = 0;
  uint64_t begun = 0;
  DiskAction action = DiskAction::kSend;
  // Below the folder, without a slash in front; the folder itself is "".
  std::string path = {};
  std::string other = {};
  std::string data = {};
  uint64_t offset = 0;
};

// A folder on a disk with faults, for a process that is started with environment(). Thread-safe.
class Disk {
 public:
  // `folder` is an absolute path. The log and the control are kept beside it.
  explicit Disk(std::filesystem::path folder);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // The director's, which makes it.
  std::filesystem::path data_dir() const { return folder_ / kDataFolder; }
  // What to add to a process's environment, for env(1).
  std::vector<std::string> environment() const;

  DiskControl& control() { return *control_; }
  // Later than everything before, in the process too.
  uint64_t Tick() { return ++control_->tick; }
  uint64_t calls() const { return control_->calls; }
  void DieAt(uint64_t call, Death death);
  // Sets the process's wall clock so far from the right time.
  void SetWallClock(absl::Duration offset);

  // All calls until now.
  std::vector<DiskCall> Log() const;

 private:
  const std::filesystem::path folder_;
  const std::filesystem::path records_;
  DiskControl* control_;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_DISK_H_
