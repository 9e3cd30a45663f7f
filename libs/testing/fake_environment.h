// A clock, random numbers and an executor that a test controls.

#ifndef CALLBOARD_LIBS_TESTING_FAKE_ENVIRONMENT_H_
#define CALLBOARD_LIBS_TESTING_FAKE_ENVIRONMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/ports/environment.h"

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

  // Advances both clocks. REQUIRES: elapsed >= 0.
  void Advance(absl::Duration elapsed) {
    CHECK(elapsed >= absl::ZeroDuration());
    base::MutexLock lock(mutex_);
    wall_ += elapsed;
    monotonic_ += elapsed;
  }
  // Steps the wall clock, as an operator or NTP does; the monotonic clock does not change.
  void StepWall(absl::Duration step) {
    base::MutexLock lock(mutex_);
    wall_ += step;
  }

 private:
  mutable base::Mutex mutex_;
  absl::Time wall_ ABSL_GUARDED_BY(mutex_) = absl::FromUnixSeconds(1'700'000'000);
  absl::Duration monotonic_ ABSL_GUARDED_BY(mutex_) = absl::Hours(1);
};

// A deterministic random generator (SplitMix64): the same seed gives the same numbers. Not
// thread-safe.
class FakeRandom final : public ports::Random {
 public:
  explicit FakeRandom(uint64_t seed = 1) : state_(seed) {}

  uint64_t Next() override {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }

  // Returns a number from 0 to `bound` - 1. REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // Returns true with the given probability.
  bool Chance(double probability) {
    return static_cast<double>(Next() >> 11) * 0x1.0p-53 < probability;
  }

 private:
  uint64_t state_;
};

// An executor without threads: jobs run inside Wait(), one at a time, in the order in which they
// were added or in an order that a seed chooses. When there is nothing to run, Wait() advances the
// clock.
//
// Not thread-safe.
class ManualExecutor final : public ports::Executor {
 public:
  explicit ManualExecutor(FakeClock& clock, std::optional<uint64_t> seed = {})
      : clock_(clock), shuffles_(seed.has_value()), random_(seed.value_or(0)) {}
  ~ManualExecutor() override { RunAll(); }

  void Run(Job job) override { jobs_.push_back(std::move(job)); }
  // Always true, so that a seed can interleave jobs at every yield point.
  bool ShouldYield() const override { return true; }

  // Ends the process if the wait is unbounded and no job is left that could end it.
  void Wait(base::Mutex& mutex, base::CondVar&, absl::Duration timeout) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const bool bounded = timeout != absl::InfiniteDuration();
    CHECK(bounded || !jobs_.empty()) << "no job is left that could end this wait";
    // Sometimes a job takes longer than the timeout of the waiter.
    const bool slow = shuffles_ && bounded && random_.Below(8) == 0;
    if (jobs_.empty() || slow) return clock_.Advance(timeout);
    mutex.Unlock();
    RunOne();
    mutex.Lock();
  }

  // Runs one job. Returns false if there is none.
  bool RunOne() {
    if (jobs_.empty()) return false;
    const auto next =
        jobs_.begin() + static_cast<ptrdiff_t>(shuffles_ ? random_.Below(jobs_.size()) : 0);
    Job job = std::move(*next);
    jobs_.erase(next);
    job();
    return true;
  }
  void RunAll() {
    while (RunOne()) continue;
  }
  size_t size() const { return jobs_.size(); }

 private:
  FakeClock& clock_;
  const bool shuffles_;
  FakeRandom random_;
  std::vector<Job> jobs_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_FAKE_ENVIRONMENT_H_
