#ifndef CALLBOARD_LIBS_SERVER_LOG_SIGNALS_H_
#define CALLBOARD_LIBS_SERVER_LOG_SIGNALS_H_

#include "libs/server/signal_thread.h"

namespace callboard::server {

// SIGUSR1 makes the log more detailed by one level, SIGUSR2 less. In a thread of its own, because
// a log may stall that nobody reads, and the end of the process may not.
//
// Make it before any other thread; one per process.
class LogSignals {
 public:
  LogSignals();
  LogSignals(const LogSignals&) = delete;
  LogSignals& operator=(const LogSignals&) = delete;

 private:
  SignalThread thread_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_LOG_SIGNALS_H_
