#ifndef CALLBOARD_LIBS_PORTS_CLOCK_H_
#define CALLBOARD_LIBS_PORTS_CLOCK_H_

#include "absl/time/time.h"

namespace callboard::ports {

// The two times there are. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // The time of day, for what people write down: deadlines, cron, timestamps. May jump.
  virtual absl::Time WallNow() const = 0;

  // Time since a fixed moment before this process, for leases, backoff and timeouts. Never goes
  // back.
  virtual absl::Duration MonotonicNow() const = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_CLOCK_H_
