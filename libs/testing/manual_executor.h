#ifndef CALLBOARD_LIBS_TESTING_MANUAL_EXECUTOR_H_
#define CALLBOARD_LIBS_TESTING_MANUAL_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/ports/executor.h"
#include "libs/testing/fake_clock.h"
#include "libs/testing/fake_random.h"

namespace callboard::test {

// An executor without threads: jobs run while somebody waits, one at a time, in the order in which
// they came or in one that a seed chooses. When there is nothing to run, time passes.
//
// Not thread-safe.
class ManualExecutor final : public ports::Executor {
 public:
  explicit ManualExecutor(FakeClock& clock, std::optional<uint64_t> seed = {})
      : clock_(clock), shuffles_(seed.has_value()), random_(seed.value_or(0)) {}
  ~ManualExecutor() override { RunAll(); }

  void Run(Job job) override { jobs_.push_back(std::move(job)); }
  // So that everything may come between any two pieces of work.
  bool ShouldYield() const override { return true; }

  // Ends the process when there is nothing left that could end the wait.
  void Wait(base::Mutex& mutex, base::CondVar&, absl::Duration timeout) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const bool bounded = timeout != absl::InfiniteDuration();
    CHECK(bounded || !jobs_.empty()) << "nobody is left to end this wait";
    // Jobs may take longer than somebody wants to wait.
    const bool slow = shuffles_ && bounded && random_.Below(8) == 0;
    if (jobs_.empty() || slow) return clock_.Advance(timeout);
    mutex.Unlock();
    RunOne();
    mutex.Lock();
  }

  // False when there was none.
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

#endif  // CALLBOARD_LIBS_TESTING_MANUAL_EXECUTOR_H_
