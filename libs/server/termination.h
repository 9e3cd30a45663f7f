#ifndef CALLBOARD_LIBS_SERVER_TERMINATION_H_
#define CALLBOARD_LIBS_SERVER_TERMINATION_H_

#include <functional>

#include "libs/base/mutex.h"
#include "libs/server/signal_thread.h"

namespace callboard::server {

// Turns SIGTERM, SIGINT and SIGHUP into an orderly end: the first is waited for, a second one, but
// for a SIGHUP, ends the process at once with ExitCode::kFailed. What a SIGHUP means before
// WaitForSignal() is decided there, or by OnHangup(). Make it before any other thread; one per
// process.
class Termination {
 public:
  Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Returns after the first signal or request; at once if it came already.
  void WaitForSignal();
  // The program is to end in order, as after a first signal. No number of requests ends it at once.
  // Thread-safe.
  void Request();
  // From now on a SIGHUP ends nothing and runs `reload` instead, which may not wait; one that came
  // before does so now. Null to end that. Nothing of the last one runs any more when it returns.
  void OnHangup(std::function<void()> reload);

 private:
  void OnSignal(int number);

  base::Mutex mutex_;
  base::CondVar changed_;
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  // Whether the program has started; and whether a SIGHUP came earlier.
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool hung_up_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> reload_ ABSL_GUARDED_BY(mutex_);
  SignalThread thread_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_TERMINATION_H_
