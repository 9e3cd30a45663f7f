#ifndef CALLBOARD_LIBS_SERVER_WORKAROUNDS_CALL_DEADLINES_H_
#define CALLBOARD_LIBS_SERVER_WORKAROUNDS_CALL_DEADLINES_H_

#include <grpcpp/alarm.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/ports/environment.h"

namespace callboard::server::internal {

// The deadlines that servers set for calls without one. All of them share one gRPC alarm. With an
// alarm per call, gRPC would wake up a thread at the end of every call.
//
// Thread-safe.
class CallDeadlines {
 public:
  // Identifies a deadline: its time, and a number that makes it unique.
  using Key = std::pair<absl::Duration, uint64_t>;

  // `clock` outlives it.
  explicit CallDeadlines(const ports::Clock& clock) : clock_(clock) {}

  // Returns the instance of the process. It is never destroyed, because calls may end at any time.
  static CallDeadlines& Global();

  // Runs `on_elapsed` after `wait`, on a gRPC thread, unless the deadline is removed before.
  Key Add(absl::Duration wait, std::function<void()> on_elapsed);
  // Removes a deadline. Does nothing if it has elapsed.
  void Remove(const Key& key);

 private:
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAlarm();

  const ports::Clock& clock_;

  base::Mutex mutex_;
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::btree_map<Key, std::function<void()>> deadlines_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  // The time of the alarm. Remove() does not change it, so the alarm may find nothing to do.
  absl::Duration alarm_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
};

// The deadline of one call. The destructor removes it.
class CallDeadline {
 public:
  CallDeadline(absl::Duration wait, std::function<void()> on_elapsed)
      : key_(CallDeadlines::Global().Add(wait, std::move(on_elapsed))) {}
  ~CallDeadline() { CallDeadlines::Global().Remove(key_); }
  CallDeadline(const CallDeadline&) = delete;
  CallDeadline& operator=(const CallDeadline&) = delete;

 private:
  const CallDeadlines::Key key_;
};

}  // namespace callboard::server::internal

#endif  // CALLBOARD_LIBS_SERVER_WORKAROUNDS_CALL_DEADLINES_H_
