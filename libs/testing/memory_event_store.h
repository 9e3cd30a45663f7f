// Event stores in memory for tests, of which one kind fails on demand.

#ifndef CALLBOARD_LIBS_TESTING_MEMORY_EVENT_STORE_H_
#define CALLBOARD_LIBS_TESTING_MEMORY_EVENT_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "libs/ports/event_store.h"

namespace callboard::test {

// The content of an event store: the last record for each key. Not thread-safe.
class MemoryDisk {
 public:
  void Write(const core::Record& record);
  void Read(const std::function<void(const core::Record&)>& take) const;

  // Returns the records of a task by number, or null for an unknown task.
  const std::map<uint64_t, core::TaskRecord>* Find(core::QueueId id) const;

  // Records the name of a checkpoint only. ALREADY_EXISTS if the name is in use.
  absl::StatusOr<ports::Checkpoint> AddCheckpoint(const std::string& name);

 private:
  std::map<core::QueueId, std::map<uint64_t, core::TaskRecord>> tasks_;
  std::optional<core::EpochBegan> epoch_;
  std::optional<core::QueueSwitched> switched_;
  std::optional<core::LeasesExtended> extended_;
  std::optional<core::DispatchesForgotten> forgotten_;
  std::map<std::string, core::AgentMarked> agents_;
  std::map<std::pair<std::string, std::string>, core::RequestRemembered> requests_;
  std::set<std::string> checkpoints_;
};

// An in-memory EventStore for tests: committed records live as long as this object, not as long as
// the stores that it opens.
class MemoryEventStores final : public ports::EventStoreOpener {
 public:
  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override;

  const MemoryDisk& disk() const { return disk_; }

 private:
  MemoryDisk disk_;
  bool is_open_ = false;
};

// Event stores that fail when a test wants it. Committed data survives every failure. A store that
// has failed once must not be written again; the next one that is opened starts from the committed
// data.
class FaultyEventStores final : public ports::EventStoreOpener {
 public:
  // The result of a commit: its status, and whether the batch reaches the disk regardless of the
  // status.
  struct CommitResult {
    absl::Status status = {};
    bool written = true;
  };
  using DecideCommit = std::function<CommitResult()>;
  using OnWritten = std::function<void(const core::Record&)>;

  // `decide` is called before each commit; `on_written` is called for each record that reaches the
  // disk.
  explicit FaultyEventStores(DecideCommit decide, OnWritten on_written = nullptr)
      : decide_(std::move(decide)), on_written_(std::move(on_written)) {}

  // Returns the error set by FailToOpen(), if there is one.
  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess access) override;
  void FailToOpen(absl::Status status) { open_status_ = std::move(status); }

  const MemoryDisk& disk() const { return stores_.disk(); }

 private:
  const DecideCommit decide_;
  const OnWritten on_written_;
  absl::Status open_status_;
  MemoryEventStores stores_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_MEMORY_EVENT_STORE_H_
