#ifndef CALLBOARD_TESTS_CRASH_SMALL_DISK_H_
#define CALLBOARD_TESTS_CRASH_SMALL_DISK_H_

#include <cstdint>
#include <filesystem>

namespace callboard::crash {

// A small file system in memory, visible to this thread and the processes that it starts. Needs
// root, or a kernel that allows user namespaces.
class SmallDisk {
 public:
  // Returns whether this process may create one. REQUIRES: the process has one thread.
  static bool IsAllowed();

  // Mounts the disk at the existing `folder`, with at most `files` files if that is not 0.
  // REQUIRES: the process has one thread.
  SmallDisk(std::filesystem::path folder, uint64_t bytes, uint64_t files = 0);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Fills the free space.
  void Fill();
  // Frees the space that Fill() used.
  void Free();

  // The same with empty files.
  void FillWithFiles();
  void FreeFiles();

 private:
  const std::filesystem::path folder_;
  uint64_t files_ = 0;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_SMALL_DISK_H_
