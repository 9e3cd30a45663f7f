#include "libs/adapters/staged_file/staged_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/flow/abort.h"

namespace callboard::adapters {
namespace {

absl::Status WriteError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
}

// A name survives a power cut once its folder was synced.
absl::Status SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return WriteError(folder);
  const absl::Status status = fsync(descriptor) == 0 ? absl::OkStatus() : WriteError(folder);
  close(descriptor);
  return status;
}

}  // namespace

absl::StatusOr<StagedFile> StagedFile::Create(const std::string& path, Readers readers) {
  const std::string staged = path + ".new";
  // What is left of an earlier try may be open to others.
  unlink(staged.c_str());
  const mode_t mode = S_IRUSR | S_IWUSR | (readers == Readers::kOwner ? 0 : S_IRGRP | S_IROTH);
  const int descriptor = open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0) return WriteError(staged);
  std::FILE* file = fdopen(descriptor, "w");
  CHECK(file != nullptr);
  return StagedFile(path, file);
}

StagedFile::~StagedFile() {
  if (file_ != nullptr && IsOurs()) unlink(staged().c_str());
}

absl::Status StagedFile::Append(absl::string_view text) {
  CHECK(file_ != nullptr);
  const size_t written = std::fwrite(text.data(), 1, text.size(), file_.get());
  return written == text.size() ? absl::OkStatus() : WriteError(staged());
}

absl::Status StagedFile::Promote(const std::stop_token& stop) && {
  CHECK(file_ != nullptr);
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) return WriteError(staged());
  if (!IsOurs()) {
    return absl::AbortedError(
        absl::StrCat("another process writes ", path_, " at the same time; let one of them end"));
  }
  RETURN_IF_ERROR(flow::CheckNotAborted(stop));
  if (std::rename(staged().c_str(), path_.c_str()) != 0) return WriteError(path_);
  file_.reset();
  return SyncFolderOf(path_);
}

bool StagedFile::IsOurs() const {
  struct stat begun = {};
  struct stat found = {};
  return fstat(fileno(file_.get()), &begun) == 0 && lstat(staged().c_str(), &found) == 0 &&
         begun.st_dev == found.st_dev && begun.st_ino == found.st_ino;
}

}  // namespace callboard::adapters
