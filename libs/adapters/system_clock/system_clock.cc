#include "libs/adapters/system_clock/system_clock.h"

#include <time.h>

#include "absl/time/clock.h"
#include "libs/base/check.h"

namespace callboard::adapters {

absl::Time SystemClock::WallNow() const { return absl::Now(); }

absl::Duration SystemClock::MonotonicNow() const {
  timespec now;
  CHECK_EQ(clock_gettime(CLOCK_BOOTTIME, &now), 0);
  return absl::DurationFromTimespec(now);
}

}  // namespace callboard::adapters
