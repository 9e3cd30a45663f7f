#include "libs/adapters/subprocess_runner/boot_timer.h"

#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>

#include "libs/base/check.h"

namespace callboard::adapters {

BootTimer::BootTimer() : timer_(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)) {
  CHECK(timer_.is_open());
}

void BootTimer::SetAt(absl::Duration time) { Set(time, TFD_TIMER_ABSTIME); }

void BootTimer::SetAfter(absl::Duration time) { Set(time, 0); }

void BootTimer::Set(absl::Duration time, int flags) {
  itimerspec spec = {};
  // All zero is never, so that now has to be a little later.
  if (time != absl::InfiniteDuration()) {
    spec.it_value = absl::ToTimespec(std::max(time, absl::Nanoseconds(1)));
  }
  CHECK_EQ(timerfd_settime(timer_.get(), flags, &spec, nullptr), 0);
}

}  // namespace callboard::adapters
