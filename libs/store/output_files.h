#ifndef CALLBOARD_LIBS_STORE_OUTPUT_FILES_H_
#define CALLBOARD_LIBS_STORE_OUTPUT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/core/ids.h"
#include "libs/core/session.h"

namespace callboard::store {

struct OutputLimits {
  // The part of a task's output that is kept: its beginning, and two files with its end.
  uint64_t head_bytes = 256 * 1024;
  uint64_t tail_file_bytes = 384 * 1024;
  // The limit for all tasks together. Above it, the least recently written tasks are removed.
  uint64_t total_bytes = 1024 * 1024 * 1024;
};

// The position of a reader in a task's output: after a chunk, or at the beginning.
struct OutputPosition {
  core::DispatchNumber dispatch = {};
  uint64_t number = 0;

  // The matching position in the files, as the last Read() left it: the generation of the task's
  // files, the file, the offset in it, and the size of the task's output up to there.
  uint64_t generation = 0;
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// A part of a task's output, in order.
struct OutputPiece {
  struct Item {
    core::DispatchNumber dispatch = {};
    // `dropped_bytes` includes the output between the previous chunk and this one that is not kept,
    // even if the reader has seen it before.
    core::OutputChunk chunk = {};
  };
  std::vector<Item> items = {};
  // The position after the last item.
  OutputPosition end = {};
};

// Stores the output of tasks as files in a folder. `<ulid>.0` has the beginning of a task's output,
// and `<ulid>.<n>` has later parts, of which the last two are kept. Writes are not synced: a power
// cut may lose the latest output.
//
// Chunks of a task are stored in the order of their dispatches and numbers. A chunk that arrives
// late or a second time is ignored.
//
// Not thread-safe.
class OutputFiles {
 public:
  // Creates the folder if necessary and reads which files it contains.
  static absl::StatusOr<OutputFiles> Open(const std::filesystem::path& folder,
                                          const OutputLimits& limits);

  // Writes the chunks that are new. Chunks that cannot be written are dropped, and the next stored
  // chunk reports them as dropped bytes; the returned error has the reason.
  absl::Status Append(const core::RunOutput& output);

  // Returns the output after `position`, up to about `bytes_max`. Returns no items when there is no
  // more output.
  absl::StatusOr<OutputPiece> Read(core::QueueId task, const OutputPosition& position,
                                   size_t bytes_max) const;

  void Remove(core::QueueId task);
  std::vector<core::QueueId> Tasks() const;
  size_t task_count() const { return tasks_.size(); }

  uint64_t total_bytes() const { return total_bytes_; }

 private:
  struct TaskOutput {
    // Distinguishes the files of a task that was removed and writes again from its earlier files.
    uint64_t generation = 0;
    // The sizes of the files, by number.
    std::map<uint64_t, uint64_t> files = {};
    // The value of `last_write_` when the task was written last.
    uint64_t last_write = 0;
    // The position after the last chunk. Read from the files when it is first needed.
    std::optional<OutputPosition> end = {};
  };

  OutputFiles(std::filesystem::path folder, const OutputLimits& limits)
      : folder_(std::move(folder)), limits_(limits) {}

  absl::Status ScanFolder();
  std::filesystem::path PathOf(core::QueueId task, uint64_t file) const;
  // Returns the end of the last complete chunk. Truncates the files after it: a crash may have left
  // a torn chunk.
  absl::StatusOr<OutputPosition> FindEnd(core::QueueId task, TaskOutput& stored);
  TaskOutput& FindOrAdd(core::QueueId task);
  absl::Status AppendChunk(core::QueueId task, TaskOutput& stored, core::DispatchNumber dispatch,
                           const core::OutputChunk& chunk);
  absl::Status Write(core::QueueId task, TaskOutput& stored, const std::string& text);
  void RemoveFile(core::QueueId task, TaskOutput& stored, uint64_t file);
  // If the file of `position` was removed, moves the position to the next file that exists.
  static void SkipRemovedFiles(const TaskOutput& stored, OutputPosition& position);
  void MarkWritten(core::QueueId task, TaskOutput& stored);
  void RemoveUntilWithinTotal();

  std::filesystem::path folder_;
  OutputLimits limits_;
  absl::flat_hash_map<core::QueueId, TaskOutput> tasks_;
  // Least recently written first.
  std::map<uint64_t, core::QueueId> by_last_write_;
  uint64_t last_write_ = 0;
  uint64_t last_generation_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_OUTPUT_FILES_H_
