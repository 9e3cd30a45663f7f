#include "libs/system/staged_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/flow/abort.h"

namespace callboard::system {
namespace {

absl::Status WriteError(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
}

// Syncs the folder of `path`. Only then does a rename survive a power cut.
absl::Status SyncFolderOf(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return WriteError(folder);
  const absl::Status status = fsync(descriptor) == 0 ? absl::OkStatus() : WriteError(folder);
  close(descriptor);
  return status;
}

// Removes an abandoned staged file. Returns false when a process is writing it.
bool RemoveIfAbandoned(const std::string& staged) {
  const int descriptor = open(staged.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT || unlink(staged.c_str()) == 0;
  const bool is_abandoned = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if (is_abandoned) unlink(staged.c_str());
  close(descriptor);
  return is_abandoned;
}

}  // namespace

absl::StatusOr<StagedFile> StagedFile::Create(const std::string& path, Readers readers) {
  const std::string staged = path + ".new";
  const mode_t mode = S_IRUSR | S_IWUSR | (readers == Readers::kOwner ? 0 : S_IRGRP | S_IROTH);
  // The second attempt follows the removal of a leftover, which may have had a wider mode.
  for (const bool is_last : {false, true}) {
    const int descriptor = open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) {
      std::FILE* file = fdopen(descriptor, "w");
      CHECK(file != nullptr);
      StagedFile staged_file(path, file);
      if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return staged_file;
      // Another process took it for a leftover before it was locked, and removed it.
      staged_file.file_.reset();
      break;
    }
    if (errno != EEXIST) return WriteError(staged);
    if (is_last || !RemoveIfAbandoned(staged)) break;
  }
  return absl::AbortedError(
      absl::StrCat("another process writes ", path, "; wait until it has finished"));
}

StagedFile::~StagedFile() {
  if (file_ != nullptr) unlink(staged().c_str());
}

absl::Status StagedFile::Append(absl::string_view text) {
  CHECK(file_ != nullptr);
  const size_t written = std::fwrite(text.data(), 1, text.size(), file_.get());
  return written == text.size() ? absl::OkStatus() : WriteError(staged());
}

absl::Status StagedFile::Promote(const std::stop_token& stop) && {
  CHECK(file_ != nullptr);
  if (std::ferror(file_.get()) != 0 || std::fflush(file_.get()) != 0 ||
      fsync(fileno(file_.get())) != 0) {
    return WriteError(staged());
  }
  RETURN_IF_ERROR(flow::CheckNotAborted(stop));
  if (std::rename(staged().c_str(), path_.c_str()) != 0) return WriteError(path_);
  file_.reset();
  return SyncFolderOf(path_);
}

}  // namespace callboard::system
