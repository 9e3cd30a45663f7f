#ifndef CALLBOARD_LIBS_SYSTEM_STAGED_FILE_H_
#define CALLBOARD_LIBS_SYSTEM_STAGED_FILE_H_

#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace callboard::system {

// A file that is written under a temporary name and renamed to its final path when it is complete.
// So a reader never sees a partial file, and an abandoned file leaves nothing behind.
//
// Not thread-safe.
class StagedFile {
 public:
  enum class Readers { kOwner, kEverybody };

  // Creates `path` + ".new" and removes what an earlier attempt left there. Returns UNAVAILABLE
  // when the file cannot be written, and ABORTED while another process writes it.
  static absl::StatusOr<StagedFile> Create(const std::string& path, Readers readers);
  StagedFile(StagedFile&& other) = default;
  StagedFile& operator=(StagedFile&& other) = delete;
  // Removes the file unless it was promoted.
  ~StagedFile();

  absl::Status Append(absl::string_view text);

  // Syncs the file and renames it to `path`, replacing an older file. It then survives a power cut.
  // If `stop` was requested before the rename, returns an AbortError() and does not rename.
  absl::Status Promote(const std::stop_token& stop) &&;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  StagedFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string staged() const { return path_ + ".new"; }

  std::string path_;
  // Locked, so that no other process writes the same file. Null after it was promoted or moved
  // from.
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace callboard::system

#endif  // CALLBOARD_LIBS_SYSTEM_STAGED_FILE_H_
