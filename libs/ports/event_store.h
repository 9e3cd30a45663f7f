#ifndef CALLBOARD_LIBS_PORTS_EVENT_STORE_H_
#define CALLBOARD_LIBS_PORTS_EVENT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::ports {

// A copy of a store that can be opened as a new store.
struct Checkpoint {
  std::string path;
  // Sequence number of the last commit in the copy.
  uint64_t sequence = 0;
  uint64_t size_bytes = 0;
};

// Visits one record. Returns an error if the record contradicts the ones before it.
using RecordVisitor = std::function<absl::Status(const core::Record&)>;

// The durable store of the director's records. It contains everything that the director has
// promised and that it needs to continue after a crash.
//
// Commit() may be called by one thread at a time, the director's. All other methods are
// thread-safe.
class EventStore {
 public:
  // Closes the store, so that it can be opened again.
  virtual ~EventStore() = default;

  // Writes the records atomically and in order. After OK they survive a crash of the machine. A
  // record overwrites an earlier one with the same key. A task record overwrites the records of its
  // task from its own number on, as its `replaces` states.
  //
  // After an error the outcome is unknown: the batch may exist when the store is opened again. The
  // caller must close and reopen the store; all further calls on this one fail.
  // RESOURCE_EXHAUSTED means that the disk is full.
  virtual absl::Status Commit(absl::Span<const core::Record> batch) = 0;

  // Calls `visit` for every current record, until it returns an error, and returns that error.
  // Records of a task are visited in the order of their numbers; all other order is unspecified.
  // Returns DATA_LOSS if the stored data is damaged.
  virtual absl::Status Load(const RecordVisitor& visit) const = 0;

  // Returns the committed records of a task, oldest first. Empty for an unknown task.
  virtual absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const = 0;
  // Returns the spec of a task, from its first record. Null for an unknown task.
  virtual absl::StatusOr<core::SpecBytes> Spec(core::QueueId id) const = 0;

  // Copies all committed data into a new folder. Commits may continue meanwhile. Returns
  // ALREADY_EXISTS if there is a checkpoint with that name. REQUIRES: `name` is a valid file name.
  virtual absl::StatusOr<Checkpoint> CreateCheckpoint(const std::string& name) const = 0;
};

// Reasons for which a store cannot be opened (base::WithReason).
// Another process has opened the store.
inline constexpr absl::string_view kStoreLocked = "STORE_LOCKED";
// The stored data is damaged, or this version cannot read it.
inline constexpr absl::string_view kStoreRefused = "STORE_REFUSED";

enum class StoreAccess { kReadOnly, kReadWrite };

// Opens the EventStore. The director uses it again after an error, to reopen the store.
class EventStoreOpener {
 public:
  virtual ~EventStoreOpener() = default;

  // REQUIRES: the previously opened store has been destroyed.
  virtual absl::StatusOr<std::unique_ptr<EventStore>> Open(StoreAccess access) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_EVENT_STORE_H_
