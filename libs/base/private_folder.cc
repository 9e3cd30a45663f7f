#include "libs/base/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

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

// Whoever may write to a folder may put files of his own in the place of ours.
absl::Status CheckOthersMayNotWrite(const std::filesystem::path& folder) {
  struct stat status;
  if (stat(folder.c_str(), &status) != 0) return SystemError("look at", folder);
  if ((status.st_mode & S_IWOTH) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("everybody may write to the folder '", folder.string(),
                   "'; `chmod o-w` it, or name a folder below it, which is made"));
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
  return CheckOthersMayNotWrite(path);
}

}  // namespace callboard::base
