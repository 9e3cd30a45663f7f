#ifndef CALLBOARD_LIBS_TESTING_FAULTY_EVENT_STORES_H_
#define CALLBOARD_LIBS_TESTING_FAULTY_EVENT_STORES_H_

#include <functional>
#include <memory>

#include "libs/ports/event_store.h"
#include "libs/testing/memory_event_store.h"

namespace callboard::test {

// Stores that fail when they are told to. What is on the disk survives everything; a store that has
// failed once must not be written again, and the next one begins with what is on the disk.
class FaultyEventStores final : public ports::EventStoreOpener {
 public:
  // What becomes of a commit: its answer, and whether the batch is on the disk whatever it says.
  struct Fate {
    absl::Status status = {};
    bool written = true;
  };
  using DecideCommit = std::function<Fate()>;
  using OnWritten = std::function<void(const core::Record&)>;

  // `decide` is asked before each commit; `on_written` is told of each record that reaches the
  // disk.
  explicit FaultyEventStores(DecideCommit decide, OnWritten on_written = nullptr)
      : decide_(std::move(decide)), on_written_(std::move(on_written)) {}

  // The error that was set, if one was.
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

#endif  // CALLBOARD_LIBS_TESTING_FAULTY_EVENT_STORES_H_
