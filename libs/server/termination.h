#ifndef CALLBOARD_LIBS_SERVER_TERMINATION_H_
#define CALLBOARD_LIBS_SERVER_TERMINATION_H_

#include <atomic>
#include <thread>

#include "libs/base/mutex.h"

namespace callboard::server {

// Turns SIGTERM and SIGINT into an orderly end: the first is waited for, a second one ends the
// process at once with ExitCode::kFailed.
//
// Blocks both signals for the thread that makes it and for all threads made later: make it before
// any other thread. One per process.
class Termination {
 public:
  Termination();
  // Signals stay blocked: what remains of the process ends by itself.
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Returns after the first signal; at once if it came already.
  void WaitForSignal();

 private:
  void TakeSignals();

  base::Mutex mutex_;
  base::CondVar changed_;
  bool signalled_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_TERMINATION_H_
