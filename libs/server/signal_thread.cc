#include "libs/server/signal_thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "libs/base/check.h"

namespace callboard::server {
namespace {

bool StaysIgnored(int number) {
  // A shell that is no terminal's has what it runs in the background ignore SIGINT.
  if (number == SIGTERM || number == SIGINT) return false;
  struct sigaction action = {};
  CHECK_EQ(sigaction(number, nullptr, &action), 0);
  return action.sa_handler == SIG_IGN;
}

sigset_t TakenSignals(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : numbers) {
    if (!StaysIgnored(number)) sigaddset(&signals, number);
  }
  return signals;
}

// The lowest; 0 when there is none.
int FirstOf(const sigset_t& signals) {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    if (sigismember(&signals, number) == 1) return number;
  }
  return 0;
}

}  // namespace

SignalThread::SignalThread(std::initializer_list<int> numbers, std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)), signals_(TakenSignals(numbers)) {
  if (FirstOf(signals_) == 0) return;
  // All, so that it takes none that another thread of its kind, made later, is there for.
  sigset_t all;
  sigfillset(&all);
  sigset_t before;
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
  thread_ = std::thread([this] { TakeSignals(); });
  CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals_, nullptr), 0);
}

SignalThread::~SignalThread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  CHECK_EQ(pthread_kill(thread_.native_handle(), FirstOf(signals_)), 0);
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
