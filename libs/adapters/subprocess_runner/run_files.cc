#include "libs/adapters/subprocess_runner/run_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "libs/adapters/subprocess_runner/remove_tree.h"
#include "libs/base/descriptor.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::adapters {
namespace {

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  const std::filesystem::path above = std::filesystem::path(path).parent_path();
  if (mkdir(above.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return base::SystemError(absl::StrCat("make ", above.string()));
  }
  if (mkdir(path.c_str(), S_IRWXU) == 0) return absl::OkStatus();
  struct stat found = {};
  if (errno == EEXIST && lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    return absl::OkStatus();
  }
  return base::SystemError(absl::StrCat("make ", path));
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  const base::Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.is_open() || !base::WriteAll(file, text))
    return base::SystemError(absl::StrCat("write ", path));
  return absl::OkStatus();
}

// A folder of somebody else's, in which nothing could begin, is none of ours: the task chose it,
// and no agent is to blame.
bool IsFolder(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::is_directory(path, error) &&
         faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0;
}

}  // namespace

absl::StatusOr<std::string> PrepareFiles(const RunPlan& plan) {
  const RunFolders& folders = plan.folders;
  RETURN_IF_ERROR(RemoveTree(folders.run));
  RETURN_IF_ERROR(MakeFolder(folders.run));
  RETURN_IF_ERROR(MakeFolder(folders.new_artifacts()));
  RETURN_IF_ERROR(WriteFile(folders.prompt_file(), plan.prompt));
  if (!plan.payload.empty()) RETURN_IF_ERROR(WriteFile(folders.payload_file(), plan.payload));
  if (IsFolder(folders.project)) return folders.project;
  if (!folders.keeps_work) RETURN_IF_ERROR(RemoveTree(folders.work));
  RETURN_IF_ERROR(MakeFolder(folders.work));
  return folders.work;
}

std::optional<ResultFile> ReadResultFile(const RunFolders& folders) {
  // Whatever else has that name, a pipe for one, is not waited for.
  const base::Descriptor file(open(folders.result_file().c_str(),
                                   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat found = {};
  if (!file.is_open() || fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    return std::nullopt;
  }
  const auto size = static_cast<size_t>(found.st_size);
  // One byte more than is kept tells whether the cut is inside a character.
  ResultFile result = {.text = std::string(std::min(size, core::kResultBytesMax + 1), '\0'),
                       .truncated = size > core::kResultBytesMax};
  const ssize_t count = pread(file.get(), result.text.data(), result.text.size(),
                              static_cast<off_t>(size - result.text.size()));
  if (count < 0) return std::nullopt;
  result.text.resize(static_cast<size_t>(count));
  result.text = std::string(base::Utf8Tail(result.text, core::kResultBytesMax));
  return result;
}

absl::Status KeepArtifacts(const RunFolders& folders) {
  const std::string made = folders.new_artifacts();
  struct stat found = {};
  if (lstat(made.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return absl::FailedPreconditionError("the folder named by CALLBOARD_ARTIFACTS is gone");
  }
  if (const absl::Status kept = KeepFilesOnly(made); !kept.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the artifacts cannot be kept: ", kept.message()));
  }
  // Goes away when it is empty.
  if (rmdir(made.c_str()) == 0) return absl::OkStatus();
  RETURN_IF_ERROR(RemoveTree(folders.artifacts));
  const std::filesystem::path above = std::filesystem::path(folders.artifacts).parent_path();
  if (mkdir(above.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return base::SystemError(absl::StrCat("make ", above.string()));
  }
  if (rename(made.c_str(), folders.artifacts.c_str()) != 0) {
    return base::SystemError(absl::StrCat("keep the artifacts as ", folders.artifacts));
  }
  return absl::OkStatus();
}

absl::Status RemoveFiles(const RunFolders& folders) {
  const absl::Status work = folders.keeps_work ? absl::OkStatus() : RemoveTree(folders.work);
  RETURN_IF_ERROR(RemoveTree(folders.run));
  return work;
}

}  // namespace callboard::adapters
