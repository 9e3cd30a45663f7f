#ifndef CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_
#define CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_

#include <atomic>
#include <functional>
#include <thread>

namespace callboard::server {

// A thread that takes SIGTERM and SIGINT for the process and calls a function for each.
//
// Blocks both signals for the thread that makes it and for all threads made later: make it before
// any other thread. One per process.
class SignalThread {
 public:
  // `on_signal` may not wait.
  explicit SignalThread(std::function<void()> on_signal);
  // Signals stay blocked: what remains of the process ends by itself.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void TakeSignals();

  const std::function<void()> on_signal_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_SIGNAL_THREAD_H_
