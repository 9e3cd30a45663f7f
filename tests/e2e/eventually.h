#ifndef CALLBOARD_TESTS_E2E_EVENTUALLY_H_
#define CALLBOARD_TESTS_E2E_EVENTUALLY_H_

#include <functional>

#include "absl/time/time.h"

namespace callboard::e2e {

// How often is looked for what other processes do.
inline constexpr absl::Duration kLookAgain = absl::Milliseconds(20);

// Whether `holds` within `patience`. Looks again and again, and leaves the processor to others in
// between.
bool Eventually(absl::Duration patience, const std::function<bool()>& holds);

// Returns when so much time has passed. For what is defined by time alone, as how long a fault
// lasts; for everything else there is a condition.
void Pass(absl::Duration time);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_EVENTUALLY_H_
