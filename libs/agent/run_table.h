// The runs of an agent: the journal, which outlives the process, the output that it keeps of each
// run, and the table of this process's runs.

#ifndef CALLBOARD_LIBS_AGENT_RUN_TABLE_H_
#define CALLBOARD_LIBS_AGENT_RUN_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/value_types.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/core/session.h"

namespace callboard::agent {

// The agent accepted a dispatch.
struct RunAccepted {
  core::FenceToken token;
};
// A run ended with this result, which is kept until a director acknowledges it.
struct ResultStored {
  core::FenceToken token;
  core::RunResult result;
};
// The dispatch is settled: its result was acknowledged, or it was fenced off.
struct RunForgotten {
  core::FenceToken token;
};
using JournalRecord = std::variant<RunAccepted, ResultStored, RunForgotten>;

// The state after all records of a journal were applied.
struct JournalState {
  // Accepted runs that have no result yet.
  std::set<core::FenceToken> accepted = {};
  std::map<core::FenceToken, core::RunResult> results = {};

  void Apply(const JournalRecord& record);
  // Returns the shortest list of records that produces this state.
  std::vector<JournalRecord> Records() const;
};

// Durable storage for journal records. Not thread-safe.
class Journal {
 public:
  virtual ~Journal() = default;

  // Appends the records in order. They survive a crash of this process, but not necessarily a crash
  // of the machine. That is enough: after a machine crash none of the recorded runs is still
  // running, and the restarted agent reports them as lost. On an error the records may or may not
  // be stored.
  virtual absl::Status Write(absl::Span<const JournalRecord> records) = 0;
};

// How far a reader has read a run's output.
struct OutputPosition {
  // The last chunk that the reader has.
  uint64_t number = 0;
  // Bytes of the run's output up to there, whether read or reported as dropped.
  uint64_t bytes = 0;
};

// The beginning and the end of a run's output. The part between them is dropped as the output
// grows.
//
// Invariants:
//   (1) The kept chunks use at most kBytesMax of memory, counting their data and their structs.
//   (2) Chunks are in the order of their numbers.
//
// Not thread-safe.
class KeptOutput {
 public:
  static constexpr size_t kBytesMax = 1024 * 1024;
  static constexpr size_t kHeadBytesMax = 256 * 1024;

  // REQUIRES: the chunk's number is larger than all earlier ones.
  void Append(core::OutputChunk chunk);

  // Returns the position of a reader that has the chunk `number`. If that chunk was dropped, uses
  // the byte count of the last kept chunk before it, so that the reader is told of more dropped
  // bytes than it missed, never of fewer.
  OutputPosition PositionOf(uint64_t number) const;

  // Returns the chunks after `position` and advances it: whole chunks of up to `bytes_max` in
  // total, but at least one if there is one. `dropped_bytes` of each chunk counts the bytes dropped
  // between it and the chunk before.
  std::vector<core::OutputChunk> ReadAfter(OutputPosition& position, size_t bytes_max) const;

  size_t bytes() const { return head_bytes_ + tail_bytes_; }

 private:
  struct KeptChunk {
    core::OutputChunk chunk;
    // Bytes of the run's output before this chunk, kept or dropped.
    uint64_t bytes_before;
  };

  static size_t BytesOf(const KeptChunk& kept) { return sizeof(kept) + kept.chunk.data.size(); }
  static OutputPosition EndOf(const KeptChunk& kept);
  // Returns the first chunk after that number.
  template <class Chunks>
  static auto FirstAfter(const Chunks& chunks, uint64_t number);

  std::vector<KeptChunk> head_;
  size_t head_bytes_ = 0;
  std::deque<KeptChunk> tail_;
  size_t tail_bytes_ = 0;
  // Bytes of the run's output so far.
  uint64_t run_bytes_ = 0;
};

// A snapshot of a run.
struct RunView {
  core::FenceToken token = {};
  // When its process started; before that, when the agent accepted it.
  absl::Time started_at = {};
  // 0 when no process is running.
  int64_t pid = 0;
  // Both absent while it runs.
  std::optional<core::RunResult> result = {};
  std::optional<absl::Time> finished_at = {};
};

struct OutputQuery {
  std::string task_id = {};
  uint64_t after_number = 0;
  // Also return output that is written later, until the run has ended.
  bool follow = false;
};

// Callbacks of a reader of a run's output. Neither is called after `on_end`.
struct OutputCallbacks {
  // Receives the next piece. The reader must request the piece after it with RunTable::ReadNext().
  std::function<void(core::RunOutput)> on_output;
  // Receives OK when there is no more output.
  std::function<void(absl::Status)> on_end;
};
using ReaderId = base::StrongId<struct ReaderIdTag, uint64_t>;

// The runs of this agent process and their output: all that are running and the latest that have
// ended. Direct runs are kept longer than dispatched ones, because no director stores their
// results.
//
// Pure: callers pass the time of day. Not thread-safe.
class RunTable {
 public:
  // Limits on ended runs: their number, and the memory that they take.
  static constexpr size_t kDirectMax = 1000;
  static constexpr size_t kDirectBytesMax = 64 * 1024 * 1024;
  static constexpr size_t kDispatchedMax = 100;
  static constexpr size_t kDispatchedBytesMax = 16 * 1024 * 1024;
  static constexpr size_t kReadersMax = 100;
  // Size of the pieces that a reader receives.
  static constexpr size_t kPieceBytesMax = 256 * 1024;

  // Adds a run. Removes an ended run with the same token, if there is one.
  void OnAccepted(const core::FenceToken& token, absl::Time at);
  // REQUIRES for these three: the run was accepted and has not ended.
  void OnStarted(const core::FenceToken& token, int64_t pid, absl::Time at);
  void OnOutput(const core::FenceToken& token, core::OutputChunk chunk);
  void OnEnded(const core::FenceToken& token, core::RunResult result, absl::Time at);

  // Returns NOT_FOUND/TASK_NOT_FOUND when the run is unknown or was removed.
  absl::StatusOr<RunView> Find(const std::string& task_id) const;

  // Sends the stored output to `callbacks` and, with `follow`, the output to come. Ends it with
  // NOT_FOUND/TASK_NOT_FOUND or RESOURCE_EXHAUSTED/TOO_MANY_READERS. REQUIRES: the id is new.
  void StartReading(ReaderId id, OutputQuery query, OutputCallbacks callbacks);
  // Sends the next piece now, or as soon as there is one.
  void ReadNext(ReaderId id);
  void StopReading(ReaderId id) { readers_.erase(id); }

 private:
  struct Run {
    RunView view;
    KeptOutput output;
  };
  struct ReaderState {
    OutputQuery query;
    OutputCallbacks callbacks;
    OutputPosition position;
    // The reader has requested a piece and there is none yet.
    bool waiting = false;
  };
  // Ended runs of one kind, oldest first, and their limits.
  struct EndedRuns {
    const size_t runs_max;
    const size_t bytes_max;
    std::deque<core::FenceToken> runs = {};
    size_t bytes = 0;
  };

  EndedRuns& EndedRunsFor(const core::FenceToken& token);
  // REQUIRES: the run has ended.
  void Remove(EndedRuns& ended, const core::FenceToken& token);
  // REQUIRES: the run is running.
  Run& GetRunning(const core::FenceToken& token);
  // Returns null when the run is unknown.
  const Run* FindRun(const std::string& task_id) const;
  void SendNext(std::map<ReaderId, ReaderState>::iterator state);
  void WakeReaders(const core::FenceToken& token);

  std::map<core::FenceToken, Run> runs_;
  EndedRuns direct_ = {kDirectMax, kDirectBytesMax};
  EndedRuns dispatched_ = {kDispatchedMax, kDispatchedBytesMax};
  std::map<ReaderId, ReaderState> readers_;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_RUN_TABLE_H_
