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

// An agent's journal as a file that fills up, and is written anew when it is full. Each entry has
// its length and a hash before it: what a crash tore off the end is left out.
//
// The file's room is taken when it is written anew, and its entries are put into it as into memory:
// they are the kernel's from then on, whatever becomes of the process, and no call is made for
// them.
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

  // Leaves a file that ends with its last entry.
  ~FileJournal() override;
  FileJournal(const FileJournal&) = delete;
  FileJournal& operator=(const FileJournal&) = delete;

  absl::Status Write(absl::Span<const agent::JournalRecord> records) override;

 private:
  FileJournal(std::string path, base::Descriptor lock, agent::Journaled journaled)
      : path_(std::move(path)), lock_(std::move(lock)), journaled_(std::move(journaled)) {}

  // Puts a file with the fewest entries into the place of the one that is there.
  absl::Status WriteAnew();

  const std::string path_;
  const base::Descriptor lock_;
  agent::Journaled journaled_;
  base::Descriptor file_;
  // All of the file's room, and how much of it has entries.
  absl::Span<char> room_;
  size_t size_bytes_ = 0;
  std::string buffer_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_FILE_JOURNAL_FILE_JOURNAL_H_
