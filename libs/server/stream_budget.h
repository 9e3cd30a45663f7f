#ifndef CALLBOARD_LIBS_SERVER_STREAM_BUDGET_H_
#define CALLBOARD_LIBS_SERVER_STREAM_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/ports/environment.h"

namespace callboard::server {

struct StreamBudgetOptions {
  // The total size of messages that wait for readers. Each uses about twice its size in memory.
  size_t bytes_max = 32 << 20;
  // How long a message may wait for its reader before the stream may be cut off.
  absl::Duration stall_timeout = absl::Seconds(5);
};

// Bounds the memory of messages that wait for slow readers, over all streams that share it.
//
// A message counts from when it is passed to gRPC until gRPC has sent it. Above `bytes_max`, the
// stream whose message has waited longest is cut off if that is at least `stall_timeout`. Above
// twice `bytes_max` it is cut off in any case. So slow readers do not harm fast ones.
//
// Thread-safe.
class StreamBudget {
 public:
  // `clock` outlives it.
  explicit StreamBudget(const ports::Clock& clock, const StreamBudgetOptions& options = {})
      : clock_(clock), options_(options) {}

  // Adds a message that waits for its reader. `cut_off` ends its stream. It runs at most once, on a
  // thread that calls Hold(), without a lock, and possibly while Release() runs on another thread.
  // Returns a number for Release(), never 0.
  uint64_t Hold(size_t bytes, std::function<void()> cut_off);
  // Removes a message that was sent or never will be.
  void Release(uint64_t number);

  // Returns the size of the waiting messages, except those of streams that were cut off.
  size_t bytes() const;

 private:
  struct HeldMessage {
    size_t bytes = 0;
    absl::Duration since = {};
    // Null after the stream was cut off.
    std::function<void()> cut_off = nullptr;
  };

  // Returns the hooks of the streams to cut off to make room for the newest message.
  std::vector<std::function<void()>> TakeSlowest(absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ports::Clock& clock_;
  const StreamBudgetOptions options_;
  mutable base::Mutex mutex_;
  // Keyed by number, so the message that has waited longest is first.
  std::map<uint64_t, HeldMessage> held_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_STREAM_BUDGET_H_
