#include "libs/server/termination.h"

#include <signal.h>
#include <unistd.h>

#include <utility>

#include "libs/server/exit_code.h"

namespace callboard::server {

Termination::Termination()
    : thread_({SIGTERM, SIGINT, SIGHUP}, [this](int number) { OnSignal(number); }) {
  // A peer that hangs up is an error of one call, not the end of the process.
  signal(SIGPIPE, SIG_IGN);
}

void Termination::WaitForSignal() {
  base::MutexLock lock(mutex_);
  started_ = true;
  if (std::exchange(hung_up_, false)) signalled_ = true;
  while (!signalled_ && !requested_) changed_.Wait(mutex_);
}

void Termination::Request() {
  base::MutexLock lock(mutex_);
  requested_ = true;
  changed_.NotifyAll();
}

void Termination::OnHangup(std::function<void()> reload) {
  base::MutexLock lock(mutex_);
  reload_ = std::move(reload);
  if (reload_ && std::exchange(hung_up_, false)) reload_();
}

void Termination::OnSignal(int number) {
  base::MutexLock lock(mutex_);
  if (number == SIGHUP && reload_) return reload_();
  if (number == SIGHUP && !started_) {
    hung_up_ = true;
    return;
  }
  // A terminal that closes often says so twice.
  if (number == SIGHUP && (signalled_ || requested_)) return;
  // Nothing here may wait, and logging does where nobody reads the log.
  if (signalled_) _exit(static_cast<int>(ExitCode::kFailed));
  signalled_ = true;
  changed_.NotifyAll();
}

}  // namespace callboard::server
