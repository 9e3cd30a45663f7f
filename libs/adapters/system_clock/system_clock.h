#ifndef CALLBOARD_LIBS_ADAPTERS_SYSTEM_CLOCK_SYSTEM_CLOCK_H_
#define CALLBOARD_LIBS_ADAPTERS_SYSTEM_CLOCK_SYSTEM_CLOCK_H_

#include "libs/ports/clock.h"

namespace callboard::adapters {

// The clocks of the operating system.
class SystemClock final : public ports::Clock {
 public:
  absl::Time WallNow() const override;
  // Counts from the machine's start, suspended time included: a laptop that slept through a lease
  // has lost it.
  absl::Duration MonotonicNow() const override;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SYSTEM_CLOCK_SYSTEM_CLOCK_H_
