#ifndef CALLBOARD_SERVICES_CLI_INTERRUPTION_H_
#define CALLBOARD_SERVICES_CLI_INTERRUPTION_H_

#include <signal.h>

#include <atomic>
#include <stop_token>

#include "libs/server/signal_thread.h"

namespace callboard::cli {

// What Ctrl-C and SIGTERM do to a command that has something to clean up: they end it at once with
// ExitCode::kInterrupted, as any command, but for the time in which that would leave half of
// something; then the first requests a stop, and a second one ends it at once.
//
// Make it before any other thread; one per process.
class Interruption {
 public:
  Interruption() : thread_({SIGTERM, SIGINT, SIGHUP}, [this](int) { OnSignal(); }) {}
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // From now on the first signal requests a stop of this token, and does no more.
  std::stop_token Defer();

 private:
  void OnSignal();

  std::atomic<bool> deferred_ = false;
  std::stop_source stop_;
  server::SignalThread thread_;
};

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_INTERRUPTION_H_
