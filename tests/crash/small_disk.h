#ifndef CALLBOARD_TESTS_CRASH_SMALL_DISK_H_
#define CALLBOARD_TESTS_CRASH_SMALL_DISK_H_

#include <cstdint>
#include <filesystem>

namespace callboard::crash {

// A file system of a few bytes in memory, seen by this thread and what it starts. Needs to be root,
// or a kernel that lets users have namespaces.
class SmallDisk {
 public:
  // Whether this process could have one. REQUIRES: it has one thread.
  static bool IsAllowed();

  // At `folder`, which exists; with room for so many files, if that is not 0. REQUIRES: the process
  // has one thread.
  SmallDisk(std::filesystem::path folder, uint64_t bytes, uint64_t files = 0);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  // Takes all that is free.
  void Fill();
  // Gives it back.
  void Free();

  // The same with files, of which each is empty.
  void FillWithFiles();
  void FreeFiles();

 private:
  const std::filesystem::path folder_;
  uint64_t files_ = 0;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_SMALL_DISK_H_
