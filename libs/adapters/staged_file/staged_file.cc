#include "libs/adapters/staged_file/staged_file.h"

#include <fcntl.h>
#include <sys/file.h>
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

// Removes a staged file that nobody writes any more; false when somebody does.
bool RemoveIfLeft(const std::string& staged) {
  const int descriptor = open(staged.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0) return errno == ENOENT || unlink(staged.c_str()) == 0;
  const bool is_left = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  if (is_left) unlink(staged.c_str());
  close(descriptor);
  return is_left;
}

}  // namespace

absl::StatusOr<StagedFile> StagedFile::Create(const std::string& path, Readers readers) {
  const std::string staged = path + ".new";
  const mode_t mode = S_IRUSR | S_IWUSR | (readers == Readers::kOwner ? 0 : S_IRGRP | S_IROTH);
  // Once more when an earlier try has left something, which may be open to others.
  for (const bool last : {false, true}) {
    const int descriptor = open(staged.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor >= 0) {
      std::FILE* file = fdopen(descriptor, "w");
      CHECK(file != nullptr);
      StagedFile begun(path, file);
      if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) return begun;
      // Somebody took it for a leftover before it was locked.
      begun.file_.reset();
      break;
    }
    if (errno != EEXIST) return WriteError(staged);
    if (last || !RemoveIfLeft(staged)) break;
  }
  return absl::AbortedError(
      absl::StrCat("another process writes ", path, " at the same time; let it end first"));
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

}  // namespace callboard::adapters
