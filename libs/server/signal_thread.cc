#include "libs/server/signal_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "libs/base/check.h"

namespace callboard::server {
namespace {

sigset_t TerminationSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

SignalThread::SignalThread(std::function<void()> on_signal) : on_signal_(std::move(on_signal)) {
  const sigset_t signals = TerminationSignals();
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals, nullptr), 0);
  thread_ = std::thread([this] { TakeSignals(); });
}

SignalThread::~SignalThread() {
  stopping_ = true;
  CHECK_EQ(pthread_kill(thread_.native_handle(), SIGTERM), 0);
  thread_.join();
}

void SignalThread::TakeSignals() {
  const sigset_t signals = TerminationSignals();
  while (true) {
    int number = 0;
    CHECK_EQ(sigwait(&signals, &number), 0);
    if (stopping_) return;
    on_signal_();
  }
}

}  // namespace callboard::server
