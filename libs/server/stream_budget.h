#ifndef CALLBOARD_LIBS_SERVER_STREAM_BUDGET_H_
#define CALLBOARD_LIBS_SERVER_STREAM_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/ports/clock.h"

namespace callboard::server {

struct StreamBudgetOptions {
  // Messages that wait for their readers, all together. In memory one takes about twice its size.
  size_t bytes_max = 32 << 20;
  // How long a reader may leave a message alone before it makes room for others.
  absl::Duration patience = absl::Seconds(5);
};

// Bounds what streams hold for readers that do not read, over all streams that share it.
//
// A message counts from when it is given to gRPC until gRPC has sent it. Above `bytes_max` the
// stream whose message waits longest is cut off, if it has waited for `patience`; above twice that,
// in any case. So nobody who reads is cut off because others do not.
//
// Thread-safe.
class StreamBudget {
 public:
  // `clock` outlives it.
  explicit StreamBudget(const ports::Clock& clock, const StreamBudgetOptions& options = {})
      : clock_(clock), options_(options) {}

  // A message waits for its reader from now on. `cut_off` ends its stream: it runs at most once, on
  // a thread that calls Hold(), with no lock held, and maybe while Release() runs on another.
  // Returns a number for Release(), never 0.
  uint64_t Hold(size_t bytes, std::function<void()> cut_off);
  // It was sent, or will never be.
  void Release(uint64_t number);

  // Of messages that wait, without those of streams that were cut off.
  size_t bytes() const;

 private:
  struct Held {
    size_t bytes = 0;
    absl::Duration since = {};
    // Null once it was cut off.
    std::function<void()> cut_off = nullptr;
  };

  // Those who have to go so that there is room for the newest.
  std::vector<std::function<void()>> TakeSlowest(absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ports::Clock& clock_;
  const StreamBudgetOptions options_;
  mutable base::Mutex mutex_;
  // By number: the one that waits longest first.
  std::map<uint64_t, Held> held_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_STREAM_BUDGET_H_
