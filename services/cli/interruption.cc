#include "services/cli/interruption.h"

#include <unistd.h>

#include "services/cli/exit_code.h"

namespace callboard::cli {

std::stop_token Interruption::Defer() {
  deferred_ = true;
  return stop_.get_token();
}

void Interruption::OnSignal() {
  // False the second time.
  if (deferred_ && stop_.request_stop()) return;
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace callboard::cli
