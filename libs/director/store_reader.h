#ifndef CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_
#define CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_

#include <cstddef>
#include <functional>

#include "libs/base/mutex.h"
#include "libs/flow/flow.h"
#include "libs/ports/event_store.h"
#include "libs/ports/executor.h"

namespace callboard::director {

// Lets work in lanes read the store, so that no read holds up the thread that writes it, and no
// store is closed under a read.
//
// Thread-safe.
class StoreReader {
 public:
  // What a read gets: null when there is no store to read.
  using Read = std::function<void(const ports::EventStore*)>;

  // Where those wait who wait for reads. Outlives the reader.
  explicit StoreReader(ports::Executor& executor) : executor_(executor) {}
  // Waits until all that was posted is read.
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  // From now on reads get this store, which lives until the next call. Waits for reads under way;
  // those that wait for their turn in a lane come after it.
  void Attach(const ports::EventStore* store);

  // Runs `read` in `lane`. False when too many wait there.
  [[nodiscard]] bool Post(flow::Lane& lane, Read read);

 private:
  void Run(Read read);

  ports::Executor& executor_;

  base::Mutex mutex_;
  base::CondVar changed_;
  const ports::EventStore* store_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Reads that are not over, and those of them that have the store.
  size_t posted_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t reading_ ABSL_GUARDED_BY(mutex_) = 0;
  // Those who wait to attach a store; they go before reads that wait.
  int attaching_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_
