#ifndef CALLBOARD_TESTS_CRASH_DISK_H_
#define CALLBOARD_TESTS_CRASH_DISK_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/crash/disk_control.h"

namespace callboard::crash {

// A call in the log.
struct DiskCall {
  uint64_t tick = 0;
  uint64_t begun = 0;
  DiskAction action = DiskAction::kSend;
  // Path below the folder, without a leading slash; the folder itself is "".
  std::string path = {};
  std::string other = {};
  std::string data = {};
  uint64_t offset = 0;
};

// A folder on a faulty disk, for a process that is started with environment(). Thread-safe.
class Disk {
 public:
  // `folder` is an absolute path. The log and the control block are stored next to it.
  explicit Disk(std::filesystem::path folder);
  ~Disk();
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // The data folder of the director, which creates it.
  std::filesystem::path data_dir() const { return folder_ / kDataFolder; }
  // Returns the environment variables to pass to env(1).
  std::vector<std::string> environment() const;

  DiskControl& control() { return *control_; }
  // Returns a tick that is later than all earlier ones, also those of the process.
  uint64_t Tick() { return ++control_->tick; }
  uint64_t calls() const { return control_->calls; }
  void DieAt(uint64_t call, DeathTime death);
  // Shifts the process's wall clock by `offset`.
  void SetWallClock(absl::Duration offset);

  // Returns all calls so far.
  std::vector<DiskCall> Log() const;

 private:
  const std::filesystem::path folder_;
  const std::filesystem::path records_;
  DiskControl* control_;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_DISK_H_
