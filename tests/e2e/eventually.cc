#include "tests/e2e/eventually.h"

#include <algorithm>

#include "libs/base/mutex.h"
#include "libs/system/system.h"

namespace callboard::e2e {

bool WaitUntilTrue(absl::Duration timeout, const std::function<bool()>& holds) {
  const system::SystemClock clock;
  const absl::Duration deadline = clock.MonotonicNow() + timeout;
  base::Mutex mutex;
  base::CondVar never;
  while (!holds()) {
    const absl::Duration left = deadline - clock.MonotonicNow();
    if (left <= absl::ZeroDuration()) return false;
    base::MutexLock lock(mutex);
    never.WaitFor(mutex, std::min(left, kPollInterval));
  }
  return true;
}

void LetTimePass(absl::Duration time) {
  WaitUntilTrue(time, [] { return false; });
}

}  // namespace callboard::e2e
