#ifndef CALLBOARD_TESTS_CRASH_DISK_IMAGE_H_
#define CALLBOARD_TESTS_CRASH_DISK_IMAGE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/crash/disk.h"

namespace callboard::crash {

// What a power cut leaves of changes that were not synced. Those of a file or of a folder's entries
// have nothing to do with those of another.
enum class Unsynced {
  kLost,
  // The first of them, of the last of these a part.
  kCutShort,
  // Any writes to a file, each whole or in part, with zeros in between; the first of the others.
  kHoles,
  kKept,
};

struct PowerCut {
  // What happened later did not.
  uint64_t tick = 0;
  Unsynced unsynced = Unsynced::kLost;
  // Chooses among what the power cut may leave.
  uint64_t seed = 0;
};

// Writes what is left in a folder after a power cut into `target`, a new one. In the beginning the
// folder held what is in `base` (nothing if that does not exist), all of it synced; then came
// `calls`.
//
// A file's content lasts once the file was synced, its name once the folder was, as POSIX has it
// and no more: file systems that make more last leave less to chance.
void WriteImage(const std::filesystem::path& base, const std::vector<DiskCall>& calls,
                const PowerCut& cut, const std::filesystem::path& target);

// The content of every file below `folder`, by its path there; of folders, which end in a slash,
// nothing.
std::map<std::string, std::string> ContentsOf(const std::filesystem::path& folder);

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_DISK_IMAGE_H_
