#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_BOOT_TIMER_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_BOOT_TIMER_H_

#include "absl/time/time.h"
#include "libs/base/descriptor.h"

namespace callboard::adapters {

// A descriptor that can be read from a moment on, on the clock that counts from the machine's start
// and goes on while it is suspended: the agent's monotonic time.
class BootTimer {
 public:
  BootTimer();

  // Infinite for never.
  void SetAt(absl::Duration time);
  void SetAfter(absl::Duration time);

  int descriptor() const { return timer_.get(); }

 private:
  void Set(absl::Duration time, int flags);

  base::Descriptor timer_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_BOOT_TIMER_H_
