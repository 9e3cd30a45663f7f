#ifndef CALLBOARD_LIBS_CORE_DRAIN_RATE_H_
#define CALLBOARD_LIBS_CORE_DRAIN_RATE_H_

#include "absl/time/time.h"

namespace callboard::core {

// How fast a queue empties: places given free per second, recent ones counting most. What lies a
// minute back counts about a third.
class DrainRate {
 public:
  // A place was given free. REQUIRES: `now` never goes back.
  void Count(absl::Duration now);

  // 0 when nothing was given free yet.
  double PerSecond(absl::Duration now) const;

  // How long the next place takes to become free at this rate: from 1 s to 1 min; 5 s when nothing
  // was measured.
  absl::Duration RetryAfter(absl::Duration now) const;

 private:
  double rate_ = 0;
  absl::Duration counted_at_;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_DRAIN_RATE_H_
