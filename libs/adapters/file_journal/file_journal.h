#ifndef CALLBOARD_LIBS_ADAPTERS_FILE_JOURNAL_FILE_JOURNAL_H_
#define CALLBOARD_LIBS_ADAPTERS_FILE_JOURNAL_FILE_JOURNAL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/agent/journal.h"
#include "libs/base/descriptor.h"

namespace callboard::adapters {

// An agent's journal as a file that grows at its end, and is written anew when most of it is
// forgotten. Each entry has its length and a hash before it: what a crash tore off the end is left
// out.
//
// For one thread.
class FileJournal final : public agent::Journal {
 public:
  struct Opened {
    std::unique_ptr<FileJournal> journal;
    agent::Journaled journaled;
  };

  // Reads what is there and goes on from it. FAILED_PRECONDITION when another process has it.
  static absl::StatusOr<Opened> Open(const std::string& path);

  absl::Status Write(absl::Span<const agent::JournalRecord> records) override;

  size_t size_bytes() const { return size_bytes_; }

 private:
  FileJournal(std::string path, base::Descriptor lock, agent::Journaled journaled)
      : path_(std::move(path)), lock_(std::move(lock)), journaled_(std::move(journaled)) {}

  // Puts a file with the fewest entries into the place of the one that is there.
  absl::Status WriteAnew();

  const std::string path_;
  const base::Descriptor lock_;
  agent::Journaled journaled_;
  base::Descriptor file_;
  size_t size_bytes_ = 0;
  // Right after it was written anew.
  size_t least_bytes_ = 0;
  std::string buffer_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_FILE_JOURNAL_FILE_JOURNAL_H_
