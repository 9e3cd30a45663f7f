// The ports for time, random numbers and threads.

#ifndef CALLBOARD_LIBS_PORTS_ENVIRONMENT_H_
#define CALLBOARD_LIBS_PORTS_ENVIRONMENT_H_

#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace callboard::ports {

// A point in time, on both clocks.
struct Moment {
  // For timestamps, deadlines and cron. May jump.
  absl::Time wall;
  // For leases, backoff and timeouts. Never decreases.
  absl::Duration monotonic;
};

// The wall clock and the monotonic clock. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Returns the wall time, for deadlines, cron and timestamps. May jump.
  virtual absl::Time WallNow() const = 0;

  // Returns the time since a fixed point before the start of this process, for leases, backoff and
  // timeouts. Never decreases.
  virtual absl::Duration MonotonicNow() const = 0;
};

// A source of random numbers, for unique names. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;

  // Returns a uniformly distributed number.
  virtual uint64_t Next() = 0;
};

// Makes a unique name of 16 lower-case hex digits.
inline std::string NewName(Random& random) {
  return absl::StrCat(absl::Hex(random.Next(), absl::kZeroPad16));
}

// Runs work within the process, and waits for it. Thread-safe.
//
// Code that waits for work must call Wait(), so that a single-threaded executor in tests can run
// that work meanwhile.
class Executor {
 public:
  using Job = absl::AnyInvocable<void()>;

  virtual ~Executor() = default;

  // Schedules `job` to run once, never within this call. Accepts every job, so callers must bound
  // the number of their jobs. A job must not throw.
  virtual void Run(Job job) = 0;

  // Returns true if other jobs wait for a thread. A long job should then return, and continue in a
  // new job.
  virtual bool ShouldYield() const = 0;

  // Waits until `changed` is notified or `timeout` has passed. Releases `mutex` while it waits. May
  // return early, so wait in a loop over the condition.
  virtual void Wait(base::Mutex& mutex, base::CondVar& changed, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_ENVIRONMENT_H_
