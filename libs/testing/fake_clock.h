#ifndef CALLBOARD_LIBS_TESTING_FAKE_CLOCK_H_
#define CALLBOARD_LIBS_TESTING_FAKE_CLOCK_H_

#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/clock.h"

namespace callboard::test {

// A clock that stands still until a test moves it. Thread-safe.
class FakeClock final : public ports::Clock {
 public:
  absl::Time WallNow() const override {
    base::MutexLock lock(mutex_);
    return wall_;
  }
  absl::Duration MonotonicNow() const override {
    base::MutexLock lock(mutex_);
    return monotonic_;
  }

  // Lets `elapsed` pass on both clocks. REQUIRES: elapsed >= 0.
  void Advance(absl::Duration elapsed) {
    CHECK(elapsed >= absl::ZeroDuration());
    base::MutexLock lock(mutex_);
    wall_ += elapsed;
    monotonic_ += elapsed;
  }
  // Sets the wall clock, as an operator or NTP does; the monotonic one does not notice.
  void StepWall(absl::Duration step) {
    base::MutexLock lock(mutex_);
    wall_ += step;
  }

 private:
  mutable base::Mutex mutex_;
  absl::Time wall_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'700'000'000);
  absl::Duration monotonic_ ABSL_GUARDED_BY(mutex_) = absl::Hours(1);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FAKE_CLOCK_H_
