#ifndef CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_
#define CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_

#include <signal.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <thread>

namespace callboard::server {

// A thread that takes some signals for the process and calls a function for each. Those that the
// process was started to ignore, as a SIGHUP by nohup, stay ignored; but for SIGTERM and SIGINT.
//
// Blocks the signals for the thread that makes it and for all threads made later: make it before
// any other thread, but for those of its kind. One per process and signal.
class SignalThread {
 public:
  // `on_signal` gets the signal's number. While it runs, further signals wait.
  SignalThread(std::initializer_list<int> numbers, std::function<void(int)> on_signal);
  // Signals stay blocked: what remains of the process ends by itself.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void TakeSignals();

  const std::function<void(int)> on_signal_;
  const sigset_t signals_;
  std::atomic<bool> stopping_ = false;
  // None when all signals stay ignored.
  std::thread thread_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_
