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

// A copy of a store, from which another can be started.
struct Checkpoint {
  std::string path;
  // The last commit that is in it.
  uint64_t sequence = 0;
  uint64_t size_bytes = 0;
};

// An error when the record cannot be true.
using RecordTaker = std::function<absl::Status(const core::Record&)>;

// The events: what the director has promised, and all that it needs to go on after a crash.
//
// Commit() has one caller, the director's thread; the rest is thread-safe.
class EventStore {
 public:
  // Releases the store, so that it can be opened again.
  virtual ~EventStore() = default;

  // Writes the records, all or none, in their order. When it returns OK they survive a crash of the
  // machine. A record takes the place of an earlier one about the same thing: for a task, of those
  // from its own number on, as its `replaces` says.
  //
  // After an error the outcome is unknown: the batch may be there at the next opening. The caller
  // closes the store and opens it anew; no further Commit() succeeds on this one.
  // RESOURCE_EXHAUSTED: the disk is full.
  virtual absl::Status Commit(absl::Span<const core::Record> batch) = 0;

  // Hands over every record that counts, until one is not taken. Those of a task come in the order
  // of their numbers; beyond that there is no order. DATA_LOSS when what is stored cannot be
  // trusted; else what `take` returned.
  virtual absl::Status Load(const RecordTaker& take) const = 0;

  // The committed records of a task, oldest first; none for a task that it does not know.
  virtual absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId id) const = 0;
  // What was asked for, from the first of them; null for a task that it does not know.
  virtual absl::StatusOr<core::SpecPtr> TaskSpec(core::QueueId id) const = 0;

  // Copies all that is committed into a new folder, while commits go on. ALREADY_EXISTS when there
  // is one of that name. REQUIRES: the name is one of a file.
  virtual absl::StatusOr<Checkpoint> CreateCheckpoint(const std::string& name) const = 0;
};

// Reasons why a store is not opened (base::WithReason). Another process uses it.
inline constexpr absl::string_view kStoreLocked = "STORE_LOCKED";
// What is stored cannot be trusted, or not be read by this version.
inline constexpr absl::string_view kStoreRefused = "STORE_REFUSED";

enum class StoreAccess { kReadOnly, kReadWrite };

// Where an EventStore comes from, again and again: a store that failed is closed and opened anew.
class EventStoreOpener {
 public:
  virtual ~EventStoreOpener() = default;

  // REQUIRES: the store opened before is gone.
  virtual absl::StatusOr<std::unique_ptr<EventStore>> Open(StoreAccess access) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_EVENT_STORE_H_
