#include "libs/server/log_signals.h"

#include <signal.h>

#include "libs/base/log.h"

namespace callboard::server {

LogSignals::LogSignals()
    : thread_({SIGUSR1, SIGUSR2},
              [](int number) { number == SIGUSR1 ? base::LogMore() : base::LogLess(); }) {}

}  // namespace callboard::server
