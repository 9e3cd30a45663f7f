#ifndef CALLBOARD_LIBS_PORTS_EXECUTOR_H_
#define CALLBOARD_LIBS_PORTS_EXECUTOR_H_

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace callboard::ports {

// Where work inside the process runs, and how others wait for it. Thread-safe.
//
// Whoever waits does so here, so that an executor without threads, in tests, can run the work that
// is waited for.
class Executor {
 public:
  using Job = absl::AnyInvocable<void()>;

  virtual ~Executor() = default;

  // Runs `job` once, soon, never inside this call. Nothing is refused: callers bound what they run.
  // A job throws nothing.
  virtual void Run(Job job) = 0;

  // Whether other jobs wait for a thread: one that could go on and on brings the rest of its work
  // anew.
  virtual bool ShouldYield() const = 0;

  // Waits until `changed` is notified or `timeout` has passed. May return before: wait in a loop
  // over the condition. `mutex` is not held meanwhile.
  virtual void Wait(base::Mutex& mutex, base::CondVar& changed, absl::Duration timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_EXECUTOR_H_
