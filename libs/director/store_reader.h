#ifndef CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_
#define CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "libs/base/mutex.h"
#include "libs/ports/event_store.h"

namespace callboard::director {

// A thread that reads the store, so that no read holds up the one that writes it.
//
// Thread-safe.
class StoreReader {
 public:
  // What a read gets: null when there is no store to read.
  using Read = std::function<void(const ports::EventStore*)>;

  explicit StoreReader(size_t waiting_max)
      : waiting_max_(waiting_max), thread_([this] { ReadAll(); }) {}
  // Reads what waits.
  ~StoreReader();
  StoreReader(const StoreReader&) = delete;
  StoreReader& operator=(const StoreReader&) = delete;

  // From now on reads get this store, which lives until the next call. Waits for a read under way.
  void Attach(const ports::EventStore* store);

  // Runs `read` on the reader's thread, after those before it. False when too many wait.
  [[nodiscard]] bool Post(Read read);

 private:
  void ReadAll();

  const size_t waiting_max_;

  base::Mutex mutex_;
  base::CondVar changed_;
  const ports::EventStore* store_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  // Those who wait to attach a store; they go before reads that wait.
  int attaching_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Read> waiting_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_STORE_READER_H_
