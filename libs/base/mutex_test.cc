#include "libs/base/mutex.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace callboard::base {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, SerializesConcurrentChanges) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (int j = 0; j < 1000; ++j) {
        MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 4000);
}

TEST(MutexTest, WaitReturnsAfterNotify) {
  Counter counter;
  std::thread setter([&counter] {
    MutexLock lock(counter.mutex);
    counter.value = 1;
    counter.changed.NotifyAll();
  });
  {
    MutexLock lock(counter.mutex);
    while (counter.value == 0) counter.changed.Wait(counter.mutex);
    EXPECT_EQ(counter.value, 1);
  }
  setter.join();
}

TEST(MutexTest, WaitForReportsTheTimeout) {
  Counter counter;
  MutexLock lock(counter.mutex);
  while (counter.changed.WaitFor(counter.mutex, absl::Milliseconds(1))) {
  }
  EXPECT_EQ(counter.value, 0);
}

TEST(MutexTest, WaitForAConditionIgnoresOtherNotifications) {
  Counter counter;
  std::thread setter([&counter] {
    for (int i = 0; i < 10; ++i) {
      MutexLock lock(counter.mutex);
      ++counter.value;
      counter.changed.NotifyAll();
    }
  });
  {
    MutexLock lock(counter.mutex);
    EXPECT_TRUE(counter.changed.WaitFor(counter.mutex, absl::Minutes(1),
                                        [&counter] { return counter.value == 10; }));
    EXPECT_FALSE(counter.changed.WaitFor(counter.mutex, absl::Milliseconds(1),
                                         [&counter] { return counter.value == 11; }));
  }
  setter.join();
}

}  // namespace
}  // namespace callboard::base
