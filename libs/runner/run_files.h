// The files and the output of a run.

#ifndef CALLBOARD_LIBS_RUNNER_RUN_FILES_H_
#define CALLBOARD_LIBS_RUNNER_RUN_FILES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/ports/task_runner.h"
#include "libs/runner/run_plan.h"

namespace callboard::runner {

inline constexpr uint64_t kRemovedEntriesMax = 10'000'000;

// Removes a folder and its content, even if the content was made to prevent that: follows no links,
// changes the mode of folders that their owner cannot open, and needs few descriptors at any depth.
//
// Returns OK when there is no such folder. Returns RESOURCE_EXHAUSTED when there are more than
// `entries_max` entries, after removing that many. Returns FAILED_PRECONDITION when something is
// mounted on the folder or inside it: the mount and its content stay, everything else is removed.
absl::Status RemoveTree(const std::string& folder, uint64_t entries_max = kRemovedEntriesMax);

// Depth to which RemoveSpecialFiles() visits folders.
inline constexpr int kFolderLevelsMax = 200;

// Removes everything except regular files and folders from a folder, at all levels: links, devices,
// pipes, sockets. Returns RESOURCE_EXHAUSTED when there are more than kFolderLevelsMax levels, and
// FAILED_PRECONDITION when something is mounted inside the folder.
absl::Status RemoveSpecialFiles(const std::string& folder);

// Buffers the output of a run. Joins small writes to chunks, and hands out chunks while the amount
// of undelivered output is below a limit. Drops the oldest waiting chunks when output arrives
// faster than it is delivered.
//
// Invariants:
//   (1) Chunks that were handed out but not delivered, waiting chunks, and bytes that are not in a
//       chunk yet are at most kUndeliveredBytesMax bytes together.
//   (2) Chunks are handed out in the order of their numbers. Every byte before the first dropped
//       byte is handed out.
//
// Not thread-safe.
class OutputLog {
 public:
  static constexpr size_t kUndeliveredBytesMax = 256 * 1024;
  static constexpr size_t kChunkBytesMax = 32 * 1024;
  static constexpr size_t kWaitingBytesMax = 64 * 1024;
  static constexpr size_t kHandedOutBytesMax =
      kUndeliveredBytesMax - kWaitingBytesMax - 2 * kChunkBytesMax;
  // How long output waits to be joined with later output.
  static constexpr absl::Duration kJoinFor = absl::Milliseconds(20);

  // Appends output that was read. `at` is the wall time, `now` the monotonic time.
  // REQUIRES: TakeChunk() returned null since the last call; else chunks may be dropped although
  // they could have been handed out.
  void Append(ports::OutputStream stream, absl::string_view text, absl::Time at,
              absl::Duration now);

  // Returns the time at which output has waited long enough to become a chunk; infinite when no
  // output waits.
  absl::Duration due_at() const;
  // Makes chunks of the output that has waited long enough.
  void CutChunks(absl::Duration now);
  // Makes chunks of all remaining output. From now on, chunks are handed out without a limit.
  // REQUIRES: Append() is not called any more.
  void Finish();

  // Returns the next chunk, or null when there is none or too much output is undelivered.
  std::optional<ports::OutputChunk> TakeChunk();
  // Marks output that was handed out as delivered, which makes room for more.
  void Acknowledge(uint64_t bytes);

  // Returns the end of the standard output, including dropped bytes. Begins with a whole character.
  absl::string_view stdout_tail() const;
  uint64_t stdout_bytes() const { return stdout_bytes_; }

 private:
  // Output that is not in a chunk yet.
  struct PartialChunk {
    std::string text;
    absl::Time at;
    absl::Duration due_at = absl::InfiniteDuration();
  };

  void CutChunk(ports::OutputStream stream);
  void AppendToTail(absl::string_view text);

  // Indexed by stream.
  std::array<PartialChunk, 2> partial_;
  std::deque<ports::OutputChunk> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t handed_out_bytes_ = 0;
  uint64_t last_number_ = 0;
  // Bytes that were dropped right before the next chunk that is cut.
  uint64_t dropped_bytes_ = 0;
  bool finished_ = false;

  std::string stdout_tail_;
  uint64_t stdout_bytes_ = 0;
};

// ---- The files of a run ----

// Creates the folders, accessible to their owner only, and writes prompt and payload. Returns the
// working directory of the task.
absl::StatusOr<std::string> PrepareFiles(const RunPlan& plan);

struct ResultFile {
  std::string text;
  bool truncated = false;
};

// Returns the result file of the run. A file that is too long is cut to its end, beginning with a
// whole character. Returns null when there is no regular file.
std::optional<ResultFile> ReadResultFile(const RunFolders& folders);

// Moves the artifacts of the run to their final folder, atomically. Does nothing when there are
// none. Removes everything except folders and regular files first, because the target of a link or
// device may change before it is read.
absl::Status KeepArtifacts(const RunFolders& folders);

// Removes the files of the run, except the work folder of a session and the kept artifacts.
absl::Status RemoveFiles(const RunFolders& folders);

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_RUN_FILES_H_
