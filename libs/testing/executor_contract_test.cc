// The contract of every Executor, fake and real.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "libs/base/mutex.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/fake_environment.h"

namespace callboard::test {
namespace {

class PoolHarness {
 public:
  ports::Executor& executor() { return pool_; }

 private:
  flow::ThreadPool pool_{2};
};

class ManualHarness {
 public:
  ports::Executor& executor() { return executor_; }

 private:
  FakeClock clock_;
  ManualExecutor executor_{clock_, /*seed=*/1};
};

template <class Executor>
class ExecutorContractTest : public ::testing::Test {
 protected:
  base::Mutex mutex_;
  base::CondVar changed_;
  int ran_ ABSL_GUARDED_BY(mutex_) = 0;
};

using Executors = ::testing::Types<PoolHarness, ManualHarness>;
TYPED_TEST_SUITE(ExecutorContractTest, Executors);

TYPED_TEST(ExecutorContractTest, JobsRunOnceWhileACallerWaits) {
  TypeParam executors;
  for (int i = 0; i < 100; ++i) {
    executors.executor().Run([this] {
      base::MutexLock lock(this->mutex_);
      ++this->ran_;
      this->changed_.NotifyAll();
    });
  }
  base::MutexLock lock(this->mutex_);
  while (this->ran_ < 100) {
    executors.executor().Wait(this->mutex_, this->changed_, absl::InfiniteDuration());
  }
  EXPECT_EQ(this->ran_, 100);
}

TYPED_TEST(ExecutorContractTest, RunNeverExecutesTheJobInline) {
  TypeParam executors;
  base::MutexLock lock(this->mutex_);
  executors.executor().Run([this] {
    base::MutexLock inner(this->mutex_);
    ++this->ran_;
  });
  EXPECT_EQ(this->ran_, 0) << "the job needs the lock that this thread holds";
}

TYPED_TEST(ExecutorContractTest, DestructorRunsAllJobs) {
  {
    TypeParam executors;
    for (int i = 0; i < 100; ++i) {
      executors.executor().Run([this] {
        base::MutexLock lock(this->mutex_);
        ++this->ran_;
      });
    }
  }
  base::MutexLock lock(this->mutex_);
  EXPECT_EQ(this->ran_, 100);
}

TYPED_TEST(ExecutorContractTest, BoundedWaitTimesOut) {
  TypeParam executors;
  base::MutexLock lock(this->mutex_);
  executors.executor().Wait(this->mutex_, this->changed_, absl::Milliseconds(1));
  EXPECT_EQ(this->ran_, 0);
}

TYPED_TEST(ExecutorContractTest, JobMayAddAnotherJob) {
  TypeParam executors;
  executors.executor().Run([&] {
    executors.executor().Run([this] {
      base::MutexLock lock(this->mutex_);
      ++this->ran_;
      this->changed_.NotifyAll();
    });
  });
  base::MutexLock lock(this->mutex_);
  while (this->ran_ < 1) {
    executors.executor().Wait(this->mutex_, this->changed_, absl::InfiniteDuration());
  }
  EXPECT_EQ(this->ran_, 1);
}

TEST(ManualExecutorTest, TimePassesWhenThereIsNothingToRun) {
  FakeClock clock;
  const absl::Duration before = clock.MonotonicNow();
  ManualExecutor executor(clock);
  base::Mutex mutex;
  base::CondVar changed;
  base::MutexLock lock(mutex);
  executor.Wait(mutex, changed, absl::Seconds(7));
  EXPECT_EQ(clock.MonotonicNow() - before, absl::Seconds(7));
}

TEST(ThreadPoolTest, YieldsWhenJobsWaitForAThreadAndOnlyThen) {
  std::atomic<bool> open = false;
  std::atomic<int> running = 0;
  flow::ThreadPool pool(2);
  const auto hold = [&] {
    ++running;
    open.wait(false);
  };
  pool.Run(hold);
  pool.Run(hold);
  while (running < 2) std::this_thread::yield();
  EXPECT_FALSE(pool.ShouldYield());
  pool.Run([] {});
  EXPECT_TRUE(pool.ShouldYield());
  open = true;
  open.notify_all();
  while (pool.ShouldYield()) std::this_thread::yield();
}

TEST(ThreadPoolTest, PoolSizeCoversAllLanes) {
  flow::FlowOptions options;
  options.lanes = {{.name = "a", .limit = {2, 8}}, {.name = "b", .limit = {3, 8}}};
  EXPECT_EQ(flow::TotalConcurrency(options), 5u);
}

}  // namespace
}  // namespace callboard::test
