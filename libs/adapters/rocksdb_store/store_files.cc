#include "libs/adapters/rocksdb_store/store_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

absl::Status ToStatus(const std::error_code& error, const std::filesystem::path& path) {
  return error ? FileError(error.value(), path.string()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> Exists(const std::filesystem::path& path) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  RETURN_IF_ERROR(ToStatus(error, path));
  return exists;
}

absl::Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  return ToStatus(error, from);
}

absl::Status Remove(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return ToStatus(error, path);
}

absl::Status CreateFolders(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  return ToStatus(error, path);
}

absl::Status SyncFolder(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(const File file, File::Open(folder, O_RDONLY | O_DIRECTORY));
  return fsync(file.descriptor()) == 0 ? absl::OkStatus() : FileError(errno, folder.string());
}

absl::Status CopyAll(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  if (std::filesystem::is_directory(from, error)) {
    RETURN_IF_ERROR(CreateFolders(to));
    for (auto file = std::filesystem::directory_iterator(from, error);
         !error && file != std::filesystem::directory_iterator(); file.increment(error)) {
      RETURN_IF_ERROR(CopyAll(file->path(), to / file->path().filename()));
    }
    RETURN_IF_ERROR(ToStatus(error, from));
    return SyncFolder(to);
  }
  std::filesystem::copy_file(from, to, error);
  RETURN_IF_ERROR(ToStatus(error, to));
  // It has the mode of what was copied, which others may read, or nobody may write.
  std::filesystem::permissions(
      to, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, error);
  RETURN_IF_ERROR(ToStatus(error, to));
  ASSIGN_OR_RETURN(const File file, File::Open(to, O_RDONLY));
  return fsync(file.descriptor()) == 0 ? absl::OkStatus() : FileError(errno, to.string());
}

absl::StatusOr<File> File::Open(const std::filesystem::path& path, int flags, int* error_number) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (descriptor >= 0) return File(descriptor);
  const int failure = errno;
  if (error_number != nullptr) *error_number = failure;
  return FileError(failure, path.string());
}

absl::Status File::CheckInPlace(const std::filesystem::path& path) const {
  struct stat open_file;
  struct stat named_file;
  if (fstat(descriptor_, &open_file) != 0) return FileError(errno, path.string());
  if (open_file.st_nlink > 0 && stat(path.c_str(), &named_file) == 0 &&
      named_file.st_dev == open_file.st_dev && named_file.st_ino == open_file.st_ino) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      path.string(), " was removed or replaced while it was in use; put the data folder back"));
}

File::File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace callboard::adapters
