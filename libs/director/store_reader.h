// Reads of the store in flow lanes, and tasks as users see them, built from their records.

#ifndef CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_
#define CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_

#include <cstddef>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/director/engine_types.h"
#include "libs/flow/flow.h"
#include "libs/ports/environment.h"
#include "libs/ports/event_store.h"

namespace callboard::director {

// Runs reads of the store in lanes, so that no read blocks the thread that writes, and the store is
// not closed during a read.
//
// Thread-safe.
class StoreReader {
 public:
  // Receives the store; null when there is none.
  using Read = std::function<void(const ports::EventStore*)>;

  // `executor` is used to wait for reads. It outlives the reader.
  explicit StoreReader(ports::Executor& executor) : executor_(executor) {}
  // Waits for all posted reads.
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  // Sets the store for subsequent reads. The store lives until the next call. Waits for running
  // reads; reads that still wait in a lane get the new store.
  void Attach(const ports::EventStore* store);

  // Runs `read` in `lane`. Returns false when the lane is full.
  [[nodiscard]] bool Post(flow::Lane& lane, Read read);

 private:
  void Run(Read read);

  ports::Executor& executor_;

  base::Mutex mutex_;
  base::CondVar changed_;
  const ports::EventStore* store_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Posted reads that have not finished, and the part of them that uses the store now.
  size_t posted_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t reading_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of threads that wait in Attach(). They go before new reads.
  int attaching_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns the task, completed with `summary` from the engine. NOT_FOUND when it was forgotten since
// then.
absl::StatusOr<core::Task> ReadTask(const ports::EventStore& store, const TaskSummary& summary);

// Builds a task without a summary from the engine; its position is that of its last record.
// REQUIRES: all records of the task, oldest first, at least one.
core::Task TaskFromRecords(absl::Span<const core::TaskRecord> records);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_
