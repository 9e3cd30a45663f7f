#ifndef CALLBOARD_LIBS_STORE_OUTPUT_KEEPER_H_
#define CALLBOARD_LIBS_STORE_OUTPUT_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/session.h"
#include "libs/ports/environment.h"
#include "libs/store/output_files.h"

namespace callboard::store {

class OutputReader;

struct OutputKeeperOptions {
  std::filesystem::path folder = {};
  OutputLimits limits = {};
  // Size of the output that may wait to be written. The data beyond it is dropped, and its size is
  // recorded.
  uint64_t waiting_bytes_max = 64 * 1024 * 1024;
  // How long a reader of an ended task waits for the rest of its output.
  absl::Duration linger = absl::Seconds(1);
  // How often the keeper looks for output of forgotten tasks: when this many tasks have started to
  // write, or this much time has passed.
  size_t sweep_tasks = 1000;
  absl::Duration sweep_every = absl::Hours(1);
};

// Stores the output of tasks and serves its readers, on one background thread.
//
// Thread-safe. Only Stop() and the destructor block.
class OutputKeeper {
 public:
  static constexpr int kReadersMax = 1000;

  using Tasks = std::vector<core::QueueId>;
  // Calls its second argument with those of the tasks that the director does not know any more. May
  // do so on any thread and at any time.
  using FindForgotten = std::function<void(Tasks, std::function<void(Tasks)>)>;

  // `clock` outlives the keeper.
  static absl::StatusOr<std::unique_ptr<OutputKeeper>> Start(const OutputKeeperOptions& options,
                                                             const ports::Clock& clock,
                                                             FindForgotten find_forgotten);
  // Calls Stop().
  ~OutputKeeper();
  OutputKeeper(const OutputKeeper&) = delete;
  OutputKeeper& operator=(const OutputKeeper&) = delete;

  // Writes all waiting output. After it nothing is stored and no callback is called.
  void Stop();

  // Writes the output and then calls `on_stored`, even if the output could not be written and was
  // dropped.
  void Store(core::RunOutput output, std::function<void()> on_stored);

  struct ReadRequest {
    core::QueueId task = {};
    // Only output after this position.
    OutputPosition after = {};
    // If set, no output of later dispatches.
    std::optional<core::DispatchNumber> last_dispatch = {};
    // Also return output that is written later.
    bool follow = false;
  };
  struct ReadResult {
    std::vector<OutputPiece::Item> items = {};
    // There is no more output.
    bool is_last = false;
  };
  // Runs on the keeper's thread and must not block. Not called again after an error or `is_last`.
  using OnRead = std::function<void(absl::StatusOr<ReadResult>)>;
  // Returns RESOURCE_EXHAUSTED/TOO_MANY_READERS when there are kReadersMax readers.
  absl::StatusOr<std::shared_ptr<OutputReader>> Read(const ReadRequest& request, OnRead on_read);

 private:
  friend class OutputReader;
  class Inbox;

  OutputKeeper(const OutputKeeperOptions& options, const ports::Clock& clock, OutputFiles files,
               FindForgotten find_forgotten);

  void Run();
  void Write(const core::RunOutput& output);
  void MarkComplete(const core::FenceToken& token);
  void Serve(const std::shared_ptr<OutputReader>& reader, absl::Duration now);
  // Returns whether a reader that has read everything need not wait for more.
  bool IsComplete(const OutputReader& reader, absl::Duration now) const;
  void RemoveReader(const OutputReader& reader);
  // Serves the readers of the task at the end of the current round.
  void MarkChanged(core::QueueId task) { changed_tasks_.insert(task); }
  void SweepIfDue(absl::Duration now);

  const OutputKeeperOptions options_;
  const ports::Clock& clock_;
  const FindForgotten find_forgotten_;
  // Shared with readers and pending replies, which may outlive the keeper.
  const std::shared_ptr<Inbox> inbox_;

  // Used only by the keeper's thread.
  OutputFiles files_;
  std::map<core::QueueId, std::vector<std::shared_ptr<OutputReader>>> readers_;
  std::set<core::QueueId> changed_tasks_;
  // When readers of ended tasks give up.
  std::multimap<absl::Duration, core::QueueId> deadlines_;
  // The last dispatch of a task whose output is complete. Only recent ones: after `linger` no
  // reader waits for it.
  absl::flat_hash_map<core::QueueId, core::DispatchNumber> complete_;
  std::deque<core::QueueId> complete_in_order_;
  size_t tasks_at_sweep_ = 0;
  absl::Duration swept_at_ = -absl::InfiniteDuration();

  std::thread thread_;
};

// A reader of a task's output, which receives it piece by piece. Thread-safe. May outlive the
// keeper; then its methods do nothing.
class OutputReader : public std::enable_shared_from_this<OutputReader> {
 public:
  // Requests the next piece. It is delivered as soon as there is one. REQUIRES: the piece before
  // was delivered.
  void RequestNext();
  // The task has ended, `ago` before now, with this dispatch as its last. Output that is still
  // missing arrives soon or never.
  void OnTaskEnded(core::DispatchNumber dispatch, absl::Duration ago);
  // Stops reading. A callback that is already running or about to run is not prevented.
  void Stop();

 private:
  friend class OutputKeeper;
  OutputReader(std::shared_ptr<OutputKeeper::Inbox> inbox, const OutputKeeper::ReadRequest& request,
               OutputKeeper::OnRead on_read)
      : inbox_(std::move(inbox)), request_(request), on_read_(std::move(on_read)) {}

  const std::shared_ptr<OutputKeeper::Inbox> inbox_;

  // Used only by the keeper's thread.
  OutputKeeper::ReadRequest request_;
  OutputKeeper::OnRead on_read_;
  bool next_requested_ = false;
  uint64_t read_bytes_ = 0;
  // Set when the task has ended: its last dispatch, and how long to wait for its output.
  struct Ending {
    core::DispatchNumber dispatch = {};
    absl::Duration give_up_at = {};
  };
  std::optional<Ending> ending_ = {};
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_OUTPUT_KEEPER_H_
