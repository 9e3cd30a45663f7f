#ifndef CALLBOARD_LIBS_STORE_FILE_JOURNAL_H_
#define CALLBOARD_LIBS_STORE_FILE_JOURNAL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/agent/run_table.h"
#include "libs/base/files.h"

namespace callboard::store {

// An agent's journal in a file. Each entry is preceded by its length and a hash, so that a torn
// entry at the end, left by a crash, is recognized and ignored.
//
// Write() appends to a memory mapping of the file, without a system call. The kernel then owns the
// data, so it survives a crash of the process. The disk space is reserved when the file is created.
// When the file is full, it is replaced by a new one with the fewest entries that have the same
// effect.
//
// Not thread-safe.
class FileJournal final : public agent::Journal {
 public:
  struct OpenResult {
    std::unique_ptr<FileJournal> journal;
    agent::JournalState state;
  };

  // Reads the file and continues it. Creates it if it does not exist. Returns FAILED_PRECONDITION
  // when another process has the journal open, or when an entry is of an unknown format.
  static absl::StatusOr<OpenResult> Open(const std::string& path);

  // Truncates the file after its last entry.
  ~FileJournal() override;
  FileJournal(const FileJournal&) = delete;
  FileJournal& operator=(const FileJournal&) = delete;

  absl::Status Write(absl::Span<const agent::JournalRecord> records) override;

 private:
  FileJournal(std::string path, base::Descriptor lock, agent::JournalState state)
      : path_(std::move(path)), lock_(std::move(lock)), state_(std::move(state)) {}

  // Replaces the file by one with the fewest entries that produce `state_`.
  absl::Status Rewrite();

  const std::string path_;
  const base::Descriptor lock_;
  agent::JournalState state_;
  base::Descriptor file_;
  // The mapped file, and how much of it contains entries.
  absl::Span<char> mapping_;
  size_t size_bytes_ = 0;
  std::string buffer_;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_FILE_JOURNAL_H_
