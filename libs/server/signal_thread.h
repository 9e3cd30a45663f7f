#ifndef CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_
#define CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

namespace callboard::server {

// A thread that takes SIGTERM, SIGINT and SIGHUP for the process and calls a function for each. A
// SIGHUP that the process was started to ignore, as by nohup, stays ignored.
//
// Blocks the signals for the thread that makes it and for all threads made later: make it before
// any other thread. One per process.
class SignalThread {
 public:
  // `on_signal` gets the signal's number, and may not wait.
  explicit SignalThread(std::function<void(int)> on_signal);
  // Signals stay blocked: what remains of the process ends by itself.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void TakeSignals();

  const std::function<void(int)> on_signal_;
  const sigset_t signals_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_
