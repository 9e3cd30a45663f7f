#include "libs/server/signal_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "libs/base/check.h"

namespace callboard::server {
namespace {

bool IsIgnored(int number) {
  struct sigaction action = {};
  CHECK_EQ(sigaction(number, nullptr, &action), 0);
  return action.sa_handler == SIG_IGN;
}

sigset_t TakenSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (!IsIgnored(SIGHUP)) sigaddset(&signals, SIGHUP);
  return signals;
}

}  // namespace

SignalThread::SignalThread(std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)), signals_(TakenSignals()) {
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals_, nullptr), 0);
  thread_ = std::thread([this] { TakeSignals(); });
}

SignalThread::~SignalThread() {
  stopping_ = true;
  CHECK_EQ(pthread_kill(thread_.native_handle(), SIGTERM), 0);
  thread_.join();
}

void SignalThread::TakeSignals() {
  while (true) {
    int number = 0;
    CHECK_EQ(sigwait(&signals_, &number), 0);
    if (stopping_) return;
    on_signal_(number);
  }
}

}  // namespace callboard::server
