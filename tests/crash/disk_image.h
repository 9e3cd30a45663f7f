#ifndef CALLBOARD_TESTS_CRASH_DISK_IMAGE_H_
#define CALLBOARD_TESTS_CRASH_DISK_IMAGE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/crash/disk.h"

namespace callboard::crash {

// The part of the unsynced changes that survives a power cut. Changes of different files, or of the
// entries of different folders, are independent.
enum class Unsynced {
  kLost,
  // The first changes; the last of these in part.
  kCutShort,
  // Any writes to a file, each complete or in part, with zeros in between; the first of all other
  // changes.
  kHoles,
  kKept,
};

struct PowerCut {
  // Changes after this tick did not happen.
  uint64_t tick = 0;
  Unsynced unsynced = Unsynced::kLost;
  // Selects one of the possible results.
  uint64_t seed = 0;
};

// Writes the content of a folder after a power cut into the new folder `target`. The folder
// initially contained the synced content of `base` (nothing if it does not exist); then came
// `calls`.
//
// The content of a file is durable after a sync of the file, its name after a sync of the folder.
// This is the minimum that POSIX requires; real file systems keep more.
void WriteImage(const std::filesystem::path& base, const std::vector<DiskCall>& calls,
                const PowerCut& cut, const std::filesystem::path& target);

// Returns the content of every file below `folder` by relative path. Folders end in a slash and
// have no content.
std::map<std::string, std::string> ContentsOf(const std::filesystem::path& folder);

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_DISK_IMAGE_H_
