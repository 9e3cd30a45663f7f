#ifndef CALLBOARD_LIBS_BASE_PRIVATE_FOLDER_H_
#define CALLBOARD_LIBS_BASE_PRIVATE_FOLDER_H_

#include <filesystem>

#include "absl/status/status.h"

namespace callboard::base {

// Makes the folder and those above it that are missing, for their owner only, so that they survive
// a crash of the machine. A folder that is there and that everybody may read is closed to others,
// with a warning in the log. FAILED_PRECONDITION when that cannot be done, or when everybody may
// write to it. Folders above keep their modes.
absl::Status MakePrivateFolder(const std::filesystem::path& path);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_PRIVATE_FOLDER_H_
