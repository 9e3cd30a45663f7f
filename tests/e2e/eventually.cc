#include "tests/e2e/eventually.h"

#include <algorithm>

#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/mutex.h"

namespace callboard::e2e {

bool Eventually(absl::Duration patience, const std::function<bool()>& holds) {
  const adapters::SystemClock clock;
  const absl::Duration deadline = clock.MonotonicNow() + patience;
  base::Mutex mutex;
  base::CondVar never;
  while (!holds()) {
    const absl::Duration left = deadline - clock.MonotonicNow();
    if (left <= absl::ZeroDuration()) return false;
    base::MutexLock lock(mutex);
    never.WaitFor(mutex, std::min(left, kLookAgain));
  }
  return true;
}

void Pass(absl::Duration time) {
  Eventually(time, [] { return false; });
}

}  // namespace callboard::e2e
