#include "libs/base/files.h"

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

void Descriptor::Close() {
  if (is_open()) close(std::exchange(descriptor_, -1));
}

absl::Status SystemError(absl::string_view action) {
  return absl::UnavailableError(absl::StrCat("cannot ", action, ": ", strerror(errno)));
}

bool WriteAll(const Descriptor& file, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

std::vector<char*> NullTerminatedPointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

namespace {

absl::Status SystemError(const std::string& action, const std::filesystem::path& folder) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", action, " the folder '", folder.string(), "': ", strerror(errno)));
}

absl::Status Sync(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", folder);
  const absl::Status synced =
      fsync(descriptor) == 0 ? absl::OkStatus() : SystemError("sync", folder);
  close(descriptor);
  return synced;
}

// Removes the permissions of others from a world-readable folder. Fails for a world-writable
// folder, in which other users may have replaced our files.
absl::Status RestrictAccess(const std::filesystem::path& folder) {
  struct stat status;
  if (stat(folder.c_str(), &status) != 0) return SystemError("stat", folder);
  if ((status.st_mode & S_IWOTH) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the folder '", folder.string(),
                     "' is world-writable; run `chmod o-w` on it, or configure a folder below it"));
  }
  if ((status.st_mode & S_IRWXO) == 0) return absl::OkStatus();
  const mode_t mode = status.st_mode & ~mode_t{S_IFMT | S_IRWXO};
  if (chmod(folder.c_str(), mode) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the folder '", folder.string(),
                     "' is accessible to others, and its mode cannot be changed: ", strerror(errno),
                     "; run `chmod o-rwx` on it as its owner, or configure a folder below it"));
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
    // On failure the new folder is removed, so that the next attempt creates and syncs it again.
    if (absl::Status synced = Sync(above); !synced.ok()) {
      rmdir(folder.c_str());
      return synced;
    }
  }
  return RestrictAccess(path);
}

}  // namespace callboard::base
