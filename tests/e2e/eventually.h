#ifndef CALLBOARD_TESTS_E2E_EVENTUALLY_H_
#define CALLBOARD_TESTS_E2E_EVENTUALLY_H_

#include <functional>

#include "absl/time/time.h"

namespace callboard::e2e {

// The interval at which conditions are checked.
inline constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

// Returns whether `holds` becomes true within `timeout`. Polls and yields the processor in between.
bool WaitUntilTrue(absl::Duration timeout, const std::function<bool()>& holds);

// Returns when `time` has passed. Only for properties that are defined by time, such as the length
// of a fault; everything else has a condition.
void LetTimePass(absl::Duration time);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_EVENTUALLY_H_
