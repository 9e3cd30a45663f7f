#include "libs/server/termination.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "libs/base/check.h"
#include "libs/server/exit_code.h"

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

Termination::Termination() {
  const sigset_t signals = TerminationSignals();
  CHECK_EQ(pthread_sigmask(SIG_BLOCK, &signals, nullptr), 0);
  // A peer that hangs up is an error of one call, not the end of the process.
  signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { TakeSignals(); });
}

Termination::~Termination() {
  stopping_ = true;
  CHECK_EQ(pthread_kill(thread_.native_handle(), SIGTERM), 0);
  thread_.join();
}

void Termination::WaitForSignal() {
  base::MutexLock lock(mutex_);
  while (!signalled_) changed_.Wait(mutex_);
}

void Termination::TakeSignals() {
  const sigset_t signals = TerminationSignals();
  while (true) {
    int number = 0;
    CHECK_EQ(sigwait(&signals, &number), 0);
    if (stopping_) return;
    base::MutexLock lock(mutex_);
    // Nothing here may wait, and logging does where nobody reads the log.
    if (signalled_) _exit(static_cast<int>(ExitCode::kFailed));
    signalled_ = true;
    changed_.NotifyAll();
  }
}

}  // namespace callboard::server
