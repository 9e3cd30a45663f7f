#ifndef CALLBOARD_LIBS_AGENT_RUN_BOOK_H_
#define CALLBOARD_LIBS_AGENT_RUN_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/agent/kept_output.h"
#include "libs/base/strong_id.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/core/session.h"

namespace callboard::agent {

// A run as somebody outside sees it.
struct RunView {
  core::FenceToken token = {};
  // When its process began; until then when the agent took it.
  absl::Time started_at = {};
  // Of its process; 0 when there is none.
  int64_t pid = 0;
  // Both absent while it runs.
  std::optional<core::RunResult> result = {};
  std::optional<absl::Time> finished_at = {};
};

struct OutputQuery {
  std::string task_id = {};
  uint64_t after_number = 0;
  // Goes on until the run has ended.
  bool follow = false;
};

// Who reads the output of a run. Is shown nothing after `end`.
struct OutputReader {
  // The next piece; the one after it when he asks for it.
  std::function<void(core::OutputWritten)> show;
  // OK when nothing more will come.
  std::function<void(absl::Status)> end;
};
using ReaderId = base::StrongId<struct ReaderIdTag, uint64_t>;

// The runs of this life of the agent, for whoever asks: those that run, and of those that have
// ended the last ones. A run that a director asked for is remembered for a while only, because the
// director has it; one that was started past the queue is nowhere else.
//
// Pure; time of day comes in as an argument. Not thread-safe.
class RunBook {
 public:
  // Of runs that have ended: how many, and what they take.
  static constexpr size_t kDirectMax = 1000;
  static constexpr size_t kDirectBytesMax = 64 * 1024 * 1024;
  static constexpr size_t kDispatchedMax = 100;
  static constexpr size_t kDispatchedBytesMax = 16 * 1024 * 1024;
  static constexpr size_t kReadersMax = 100;
  // What a reader is shown at a time.
  static constexpr size_t kPieceBytesMax = 256 * 1024;

  // What was known under its name, if anything, has ended and is forgotten.
  void OnBegun(const core::FenceToken& token, absl::Time at);
  // REQUIRES: the run has begun and not ended; so for OnOutput() and OnEnded().
  void OnStarted(const core::FenceToken& token, int64_t pid, absl::Time at);
  void OnOutput(const core::FenceToken& token, core::OutputChunk chunk);
  void OnEnded(const core::FenceToken& token, core::RunResult result, absl::Time at);

  // NOT_FOUND/TASK_NOT_FOUND when there is none, or none any more.
  absl::StatusOr<RunView> Find(const std::string& task_id) const;

  // Shows what is kept, and with `follow` what comes. NOT_FOUND/TASK_NOT_FOUND, RESOURCE_EXHAUSTED/
  // TOO_MANY_READERS. REQUIRES: the id is new.
  void Read(ReaderId id, OutputQuery query, OutputReader reader);
  // He has taken what he was shown.
  void GoOn(ReaderId id);
  // He has left.
  void StopReading(ReaderId id) { readers_.erase(id); }

 private:
  struct Run {
    RunView view;
    KeptOutput output;
  };
  struct Reading {
    OutputQuery query;
    OutputReader reader;
    OutputPlace place;
    // He has taken everything that there was.
    bool waits = false;
  };
  // Runs that have ended, the first to end first.
  struct Shelf {
    const size_t runs_max;
    const size_t bytes_max;
    std::deque<core::FenceToken> runs = {};
    size_t bytes = 0;
  };

  Shelf& ShelfOf(const core::FenceToken& token);
  // REQUIRES: the run has ended.
  void Forget(Shelf& shelf, const core::FenceToken& token);
  Run& Running(const core::FenceToken& token);
  // Null when there is none.
  const Run* FindRun(const std::string& task_id) const;
  void ShowNext(std::map<ReaderId, Reading>::iterator reading);
  void WakeReaders(const core::FenceToken& token);

  std::map<core::FenceToken, Run> runs_;
  Shelf direct_ = {kDirectMax, kDirectBytesMax};
  Shelf dispatched_ = {kDispatchedMax, kDispatchedBytesMax};
  std::map<ReaderId, Reading> readers_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_RUN_BOOK_H_
