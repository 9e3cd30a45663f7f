#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_OUTPUT_LOG_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_OUTPUT_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/ports/task_runner.h"

namespace callboard::adapters {

// What the processes of a run write, on its way to whoever delivers it: joined to chunks, handed
// out while there is room, and dropped, oldest first, when it comes faster than it is delivered.
//
// Invariants:
//   (1) Chunks that were handed out and not delivered, those that wait and what is not a chunk yet
//       are together at most kUndeliveredBytesMax.
//   (2) Chunks are handed out in the order of their numbers; every byte before the first dropped
//   one
//       is handed out.
//
// Not thread-safe.
class OutputLog {
 public:
  static constexpr size_t kUndeliveredBytesMax = 256 * 1024;
  static constexpr size_t kChunkBytesMax = 32 * 1024;
  static constexpr size_t kWaitingBytesMax = 64 * 1024;
  static constexpr size_t kHandedOutBytesMax =
      kUndeliveredBytesMax - kWaitingBytesMax - 2 * kChunkBytesMax;
  // How long output waits for more to be joined with.
  static constexpr absl::Duration kJoinFor = absl::Milliseconds(20);

  // Takes what was read. `at` is the time of day, `now` a time that never goes back. Whatever has
  // room is to be taken before the next call: what waits for room that is there is dropped as well.
  void Append(ports::OutputStream stream, absl::string_view text, absl::Time at,
              absl::Duration now);

  // When something has waited long enough to be a chunk; infinite when nothing waits.
  absl::Duration due_at() const;
  // Makes chunks of what has waited long enough.
  void Cut(absl::Duration now);
  // Nothing more will come: makes chunks of everything, which are all handed out.
  void Finish();

  // The next chunk to hand out; nothing while there is no room or no chunk.
  std::optional<ports::OutputChunk> Take();
  // Makes room.
  void Delivered(uint64_t bytes);

  // The end of all that was written to standard output, dropped or not. Begins with a character.
  absl::string_view stdout_tail() const;
  uint64_t stdout_bytes() const { return stdout_bytes_; }

 private:
  // What is not a chunk yet.
  struct Open {
    std::string text;
    absl::Time at;
    absl::Duration due_at = absl::InfiniteDuration();
  };

  void Cut(ports::OutputStream stream);
  void KeepTail(absl::string_view text);

  // By stream.
  std::array<Open, 2> open_;
  std::deque<ports::OutputChunk> waiting_;
  size_t waiting_bytes_ = 0;
  uint64_t handed_out_bytes_ = 0;
  uint64_t last_number_ = 0;
  // Right before the next chunk that is cut.
  uint64_t dropped_bytes_ = 0;
  bool finished_ = false;

  std::string stdout_tail_;
  uint64_t stdout_bytes_ = 0;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_OUTPUT_LOG_H_
