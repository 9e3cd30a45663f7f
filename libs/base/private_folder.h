#ifndef CALLBOARD_LIBS_BASE_PRIVATE_FOLDER_H_
#define CALLBOARD_LIBS_BASE_PRIVATE_FOLDER_H_

#include <filesystem>

#include "absl/status/status.h"

namespace callboard::base {

// Makes the folder and those above it that are missing, for their owner only, so that they survive
// a crash of the machine. What is there keeps its mode, unless others may write to the folder
// itself: FAILED_PRECONDITION.
absl::Status MakePrivateFolder(const std::filesystem::path& path);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_PRIVATE_FOLDER_H_
