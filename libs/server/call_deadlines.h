#ifndef CALLBOARD_LIBS_SERVER_CALL_DEADLINES_H_
#define CALLBOARD_LIBS_SERVER_CALL_DEADLINES_H_

#include <grpcpp/alarm.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/ports/clock.h"

namespace callboard::server::internal {

// The deadlines that servers give to calls without one. A single timer of gRPC's stands for all of
// them: with one for each call a thread is woken up whenever a call ends.
//
// Thread-safe.
class CallDeadlines {
 public:
  // Names a deadline: when it is, and which of that moment.
  using Key = std::pair<absl::Duration, uint64_t>;

  // `clock` outlives it.
  explicit CallDeadlines(const ports::Clock& clock) : clock_(clock) {}

  // All of this process. Never destroyed: calls may end until the process does.
  static CallDeadlines& OfProcess();

  // Runs `on_elapsed` after `wait`, on a thread of gRPC's, unless it is removed before.
  Key Add(absl::Duration wait, std::function<void()> on_elapsed);
  // Nothing happens when it has elapsed.
  void Remove(const Key& key);

 private:
  void Arm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAlarm();

  const ports::Clock& clock_;

  base::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::btree_map<Key, std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mutex_);
  // What the alarm is set for. A call that ended leaves it as it is.
  absl::Duration alarm_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
};

// The deadline of one call, for as long as this lives.
class CallDeadline {
 public:
  CallDeadline(absl::Duration wait, std::function<void()> on_elapsed)
      : key_(CallDeadlines::OfProcess().Add(wait, std::move(on_elapsed))) {}
  ~CallDeadline() { CallDeadlines::OfProcess().Remove(key_); }
  CallDeadline(const CallDeadline&) = delete;
  CallDeadline& operator=(const CallDeadline&) = delete;

 private:
  const CallDeadlines::Key key_;
};

}  // namespace callboard::server::internal

#endif  // CALLBOARD_LIBS_SERVER_CALL_DEADLINES_H_
