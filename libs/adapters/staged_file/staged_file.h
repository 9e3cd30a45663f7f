#ifndef CALLBOARD_LIBS_ADAPTERS_STAGED_FILE_STAGED_FILE_H_
#define CALLBOARD_LIBS_ADAPTERS_STAGED_FILE_STAGED_FILE_H_

#include <cstdio>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace callboard::adapters {

// A file that is written beside its place and put there only when it is whole: nobody ever finds
// half of it, and nothing of it is left when it is given up.
//
// For one thread.
class StagedFile {
 public:
  enum class Readers { kOwner, kEverybody };

  // Begins `path` + ".new"; what an earlier try left there is removed. UNAVAILABLE when it cannot
  // be written, ABORTED while somebody else writes it.
  static absl::StatusOr<StagedFile> Create(const std::string& path, Readers readers);
  StagedFile(StagedFile&& other) = default;
  StagedFile& operator=(StagedFile&& other) = delete;
  // Gives up what was not promoted.
  ~StagedFile();

  absl::Status Append(absl::string_view text);

  // Puts the file into its place, whatever was there before, so that it survives a power cut. Gives
  // it up instead with an AbortError() when `stop` was requested, which it asks last of all.
  absl::Status Promote(const std::stop_token& stop) &&;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  StagedFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string staged() const { return path_ + ".new"; }

  std::string path_;
  // Locked, so that nobody else begins the same. Null once it was promoted or moved from.
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_STAGED_FILE_STAGED_FILE_H_
