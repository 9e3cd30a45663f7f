// The files of a run, from before its first process until after its last one.
#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_FILES_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_FILES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/adapters/subprocess_runner/run_plan.h"

namespace callboard::adapters {

// Makes the folders, for their owner only, and writes prompt and payload. Returns where the
// processes begin.
absl::StatusOr<std::string> PrepareFiles(const RunPlan& plan);

struct ResultFile {
  std::string text;
  bool truncated = false;
};

// What the run wrote as its result, the end of it, from a character on, when it is too long;
// nothing when it wrote no ordinary file.
std::optional<ResultFile> ReadResultFile(const RunFolders& folders);

// Puts what the run left in its folder for artifacts into its place, at once and whole; nothing
// when it left nothing. Only folders and regular files are kept: what a link or a device stands for
// may be something else when somebody reads it.
absl::Status KeepArtifacts(const RunFolders& folders);

// Removes all that is not to be kept.
absl::Status RemoveFiles(const RunFolders& folders);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_FILES_H_
