#ifndef CALLBOARD_LIBS_ADAPTERS_OUTPUT_FILES_OUTPUT_KEEPER_H_
#define CALLBOARD_LIBS_ADAPTERS_OUTPUT_FILES_OUTPUT_KEEPER_H_

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
#include "libs/adapters/output_files/output_files.h"
#include "libs/core/ids.h"
#include "libs/core/session.h"
#include "libs/ports/clock.h"

namespace callboard::adapters {

class OutputReader;

struct KeeperOptions {
  std::filesystem::path folder = {};
  OutputLimits limits = {};
  // What may wait to be written; of more it is only known how much there was.
  uint64_t waiting_bytes_max = 64 * 1024 * 1024;
  // How long somebody who reads the output of a task that has ended waits for the rest of it.
  absl::Duration linger = absl::Seconds(1);
  // How often it is found out which output nobody can ask for any more: when so many tasks have
  // begun to write, or so much time has passed.
  size_t sweep_tasks = 1000;
  absl::Duration sweep_every = absl::Hours(1);
};

// Keeps what tasks write, and shows it to those who read it, on a thread of its own.
//
// Thread-safe. Nothing waits but the end.
class OutputKeeper {
 public:
  static constexpr int kReadersMax = 1000;

  using Tasks = std::vector<core::QueueId>;
  // Answers which of the tasks nobody knows any more; from any thread, at any time.
  using FindForgotten = std::function<void(Tasks, std::function<void(Tasks)>)>;

  // `clock` outlives it.
  static absl::StatusOr<std::unique_ptr<OutputKeeper>> Start(const KeeperOptions& options,
                                                             const ports::Clock& clock,
                                                             FindForgotten find_forgotten);
  // Stop().
  ~OutputKeeper();
  OutputKeeper(const OutputKeeper&) = delete;
  OutputKeeper& operator=(const OutputKeeper&) = delete;

  // Writes what waits. After it nothing is kept, and nobody is shown anything or asked.
  void Stop();

  // Writes it and runs `kept`: also when it could not be written, and is dropped.
  void Keep(core::OutputWritten output, std::function<void()> kept);

  struct Wanted {
    core::QueueId task = {};
    OutputPlace behind = {};
    // Nothing of later ones, if given.
    std::optional<core::DispatchNumber> last_dispatch = {};
    // Whether it waits for what is yet to be written.
    bool follow = false;
  };
  struct Shown {
    std::vector<OutputPiece::Item> items = {};
    // Nothing follows.
    bool is_last = false;
  };
  // Told on the keeper's thread, which it must not block. An error is the last that is told.
  using Show = std::function<void(absl::StatusOr<Shown>)>;
  // RESOURCE_EXHAUSTED/TOO_MANY_READERS.
  absl::StatusOr<std::shared_ptr<OutputReader>> Read(const Wanted& wanted, Show show);

 private:
  friend class OutputReader;
  class Inbox;

  OutputKeeper(const KeeperOptions& options, const ports::Clock& clock, OutputFiles files,
               FindForgotten find_forgotten);

  void Run();
  void Write(const core::OutputWritten& output);
  void NoteComplete(const core::FenceToken& token);
  void Serve(const std::shared_ptr<OutputReader>& reader, absl::Duration now);
  bool IsAll(const OutputReader& reader, absl::Duration now) const;
  void Drop(const OutputReader& reader);
  // Whoever reads its output may have something to see, from then on.
  void Touch(core::QueueId task) { touched_.insert(task); }
  void SweepIfDue(absl::Duration now);

  const KeeperOptions options_;
  const ports::Clock& clock_;
  const FindForgotten find_forgotten_;
  // Shared with readers and answers that are on their way when the keeper ends.
  const std::shared_ptr<Inbox> inbox_;

  // Of its thread.
  OutputFiles files_;
  std::map<core::QueueId, std::vector<std::shared_ptr<OutputReader>>> readers_;
  std::set<core::QueueId> touched_;
  std::multimap<absl::Duration, core::QueueId> due_;
  // Of which dispatch a task's output is complete. Of late only: later nobody waits for it.
  absl::flat_hash_map<core::QueueId, core::DispatchNumber> complete_;
  std::deque<core::QueueId> complete_in_order_;
  size_t tasks_at_sweep_ = 0;
  absl::Duration swept_at_ = -absl::InfiniteDuration();

  std::thread thread_;
};

// Somebody who reads a task's output, piece by piece. Thread-safe; may be kept for longer than the
// keeper, and then does nothing.
class OutputReader : public std::enable_shared_from_this<OutputReader> {
 public:
  // Wants the next piece, and is shown it when it is there. REQUIRES: the one before was shown.
  void Next();
  // With that dispatch, the last one, so long ago: what is still missing comes soon or never.
  void OnTaskEnded(core::DispatchNumber dispatch, absl::Duration ago);
  // Is shown nothing more, but for what is on its way.
  void Leave();

 private:
  friend class OutputKeeper;
  OutputReader(std::shared_ptr<OutputKeeper::Inbox> inbox, const OutputKeeper::Wanted& wanted,
               OutputKeeper::Show show)
      : inbox_(std::move(inbox)), wanted_(wanted), show_(std::move(show)) {}

  const std::shared_ptr<OutputKeeper::Inbox> inbox_;

  // Of the keeper's thread.
  OutputKeeper::Wanted wanted_;
  OutputKeeper::Show show_;
  bool wants_next_ = false;
  uint64_t shown_bytes_ = 0;
  // Once the task has ended: its last dispatch, and until when its output is waited for.
  struct Ending {
    core::DispatchNumber dispatch = {};
    absl::Duration give_up_at = {};
  };
  std::optional<Ending> ending_ = {};
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_OUTPUT_FILES_OUTPUT_KEEPER_H_
