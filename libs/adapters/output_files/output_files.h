#ifndef CALLBOARD_LIBS_ADAPTERS_OUTPUT_FILES_OUTPUT_FILES_H_
#define CALLBOARD_LIBS_ADAPTERS_OUTPUT_FILES_OUTPUT_FILES_H_

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

namespace callboard::adapters {

struct OutputLimits {
  // What of a task is kept: its beginning, and of the rest what fits into two files.
  uint64_t head_bytes = 256 * 1024;
  uint64_t tail_file_bytes = 384 * 1024;
  // Of all tasks together: beyond that the one goes that wrote nothing for the longest time.
  uint64_t total_bytes = 1024 * 1024 * 1024;
};

// Where a reader of a task's output is: behind a chunk, or at the beginning.
struct OutputPlace {
  core::DispatchNumber dispatch = {};
  uint64_t number = 0;

  // Where that is in the files, of what life of theirs, and what the task had written by then; as a
  // reading left it.
  uint64_t life = 0;
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Some output, in its order.
struct OutputPiece {
  struct Item {
    core::DispatchNumber dispatch = {};
    // With what is not kept of this task, before it and behind the chunk before, among the bytes
    // dropped: also to one who has seen it.
    core::OutputChunk chunk = {};
  };
  std::vector<Item> items = {};
  // Behind the last.
  OutputPlace place = {};
};

// What tasks write, as files in a folder: `<ulid>.0` has the beginning of a task's output,
// `<ulid>.<n>` what came later, of which the last two stay. Not synced: a power cut may take what
// was written last.
//
// Chunks of a task are kept in the order of their dispatches and numbers: one that comes late, or
// again, is left out.
//
// For one thread.
class OutputFiles {
 public:
  // Makes the folder if need be, and finds what is in it.
  static absl::StatusOr<OutputFiles> Open(const std::filesystem::path& folder,
                                          const OutputLimits& limits);

  // Writes the chunks that are new. Those that cannot be written are dropped, which the next one
  // tells, and the error says why.
  absl::Status Append(const core::OutputWritten& output);

  // What comes behind `place`, up to about so many bytes; nothing when there is nothing.
  absl::StatusOr<OutputPiece> Read(core::QueueId task, const OutputPlace& place,
                                   size_t bytes_max) const;

  void Remove(core::QueueId task);
  std::vector<core::QueueId> Tasks() const;
  // Tasks.
  size_t size() const { return kept_.size(); }

  uint64_t total_bytes() const { return total_bytes_; }

 private:
  struct Kept {
    // Those of a task that was removed and writes again are others.
    uint64_t life = 0;
    // Their sizes, by number.
    std::map<uint64_t, uint64_t> files = {};
    // When it was written last, among all.
    uint64_t turn = 0;
    // Behind the last chunk; read from the files when it is needed for the first time.
    std::optional<OutputPlace> end = {};
  };

  OutputFiles(std::filesystem::path folder, const OutputLimits& limits)
      : folder_(std::move(folder)), limits_(limits) {}

  absl::Status Survey();
  std::filesystem::path PathOf(core::QueueId task, uint64_t file) const;
  // The end of what is whole; what a crash tore off behind it is cut off.
  absl::StatusOr<OutputPlace> FindEnd(core::QueueId task, Kept& kept);
  Kept& Keep(core::QueueId task);
  absl::Status AppendChunk(core::QueueId task, Kept& kept, core::DispatchNumber dispatch,
                           const core::OutputChunk& chunk);
  absl::Status Write(core::QueueId task, Kept& kept, const std::string& text);
  void RemoveFile(core::QueueId task, Kept& kept, uint64_t file);
  // Moves a place in a file that is gone to the next one that is not.
  static void SkipToWhatIsKept(const Kept& kept, OutputPlace& place);
  void Touch(core::QueueId task, Kept& kept);
  void MakeRoom();

  std::filesystem::path folder_;
  OutputLimits limits_;
  absl::flat_hash_map<core::QueueId, Kept> kept_;
  // The one that wrote nothing for the longest time comes first.
  std::map<uint64_t, core::QueueId> by_turn_;
  uint64_t last_turn_ = 0;
  uint64_t last_life_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_OUTPUT_FILES_OUTPUT_FILES_H_
