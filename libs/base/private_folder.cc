#include "libs/base/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/log.h"

namespace callboard::base {
namespace {

absl::Status SystemError(const std::string& doing, const std::filesystem::path& folder) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", doing, " the folder '", folder.string(), "': ", strerror(errno)));
}

absl::Status Sync(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", folder);
  const absl::Status synced =
      fsync(descriptor) == 0 ? absl::OkStatus() : SystemError("sync", folder);
  close(descriptor);
  return synced;
}

// A folder that everybody may write to may hold files of others in the place of ours; one that
// everybody may read is closed.
absl::Status KeepOthersOut(const std::filesystem::path& folder) {
  struct stat status;
  if (stat(folder.c_str(), &status) != 0) return SystemError("look at", folder);
  if ((status.st_mode & S_IWOTH) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("everybody may write to the folder '", folder.string(),
                     "'; `chmod o-w` it, or name a folder below it, which is made"));
  }
  if ((status.st_mode & S_IRWXO) == 0) return absl::OkStatus();
  const mode_t mode = status.st_mode & ~mode_t{S_IFMT | S_IRWXO};
  if (chmod(folder.c_str(), mode) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("everybody may read the folder '", folder.string(),
                     "', and it cannot be closed: ", strerror(errno),
                     "; `chmod o-rwx` it as its owner, or name a folder below it, which is made"));
  }
  base::LogWarning("server", "folder_closed",
                   {{"folder", folder.string()},
                    {"mode_before", absl::StrFormat("%04o", status.st_mode & ~mode_t{S_IFMT})},
                    {"mode", absl::StrFormat("%04o", mode)}});
  return absl::OkStatus();
}

}  // namespace

absl::Status MakePrivateFolder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::path folder;
  for (const std::filesystem::path& part : path) {
    const std::filesystem::path above = folder.empty() ? "." : folder;
    folder /= part;
    if (std::filesystem::is_directory(folder, error)) continue;
    if (mkdir(folder.c_str(), S_IRWXU) != 0) return SystemError("make", folder);
    // So that a try that fails here is made again.
    if (absl::Status synced = Sync(above); !synced.ok()) {
      rmdir(folder.c_str());
      return synced;
    }
  }
  return KeepOthersOut(path);
}

}  // namespace callboard::base
