#ifndef CALLBOARD_LIBS_CORE_MOMENT_H_
#define CALLBOARD_LIBS_CORE_MOMENT_H_

#include "absl/time/time.h"

namespace callboard::core {

// When something happens, on both clocks.
struct Moment {
  // For what people write down. May jump.
  absl::Time wall;
  // For leases, backoff and timeouts. Never goes back.
  absl::Duration monotonic;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_MOMENT_H_
