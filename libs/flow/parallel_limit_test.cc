#include "libs/flow/parallel_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "libs/flow/abort.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/status_matchers.h"

namespace callboard::flow {
namespace {

using test::IsOk;
using test::StatusIs;
using testing::ElementsAre;
using testing::UnorderedElementsAreArray;

std::vector<int> Numbers(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

absl::StatusOr<int> Identity(int item, const std::stop_token&) { return item; }

// Returns all values in the order of Next(). REQUIRES: no item fails.
template <class Results>
std::vector<int> Drain(Results& results) {
  std::vector<int> all;
  while (auto next = results.Next()) all.push_back(next->value());
  return all;
}

class ParallelLimitTest : public testing::Test {
 protected:
  test::FakeClock clock_;
  test::ManualExecutor executor_{clock_, /*seed=*/3};
  const std::vector<int> numbers_ = Numbers(20);
};

TEST_F(ParallelLimitTest, ResultsAreReturnedInOrderOfCompletion) {
  ParallelLimit results(executor_, numbers_, Identity, {.limit = 6});
  const std::vector<int> all = Drain(results);
  EXPECT_THAT(all, UnorderedElementsAreArray(numbers_));
  EXPECT_NE(all, numbers_);
}

TEST_F(ParallelLimitTest, ResultsCanBeReturnedInOrderOfTheItems) {
  ParallelLimit results(executor_, numbers_, Identity, {.limit = 6, .order = Order::kInput});
  EXPECT_EQ(Drain(results), numbers_);
}

TEST_F(ParallelLimitTest, SlowConsumerDoesNotExceedTheLimit) {
  for (const Order order : {Order::kCompletion, Order::kInput}) {
    int existing = 0;
    int exist_max = 0;
    const auto build = [&](int, const std::stop_token&) -> absl::StatusOr<std::shared_ptr<int>> {
      exist_max = std::max(exist_max, ++existing);
      return std::shared_ptr<int>(new int(0), [&existing](int* heavy) {
        --existing;
        delete heavy;
      });
    };
    ParallelLimit results(executor_, numbers_, build, {.limit = 4, .order = order});
    int returned = 0;
    while (auto next = results.Next()) {
      ++returned;
      executor_.RunAll();
      EXPECT_LE(existing, 4) << "includes the result in use by the consumer";
      next.reset();
    }
    EXPECT_EQ(returned, 20);
    EXPECT_EQ(exist_max, 4);
  }
}

TEST_F(ParallelLimitTest, ItemsAreReadOnlyWhenThereIsRoom) {
  int pulled = 0;
  const auto source = [&]() -> std::optional<int> { return ++pulled; };
  ParallelLimit results(executor_, source, Identity, {.limit = 3});
  EXPECT_EQ(pulled, 0) << "Next() was not called yet";
  ASSERT_TRUE(results.Next().has_value());
  EXPECT_EQ(pulled, 3);
  ASSERT_TRUE(results.Next().has_value());
  EXPECT_EQ(pulled, 4);
}

TEST_F(ParallelLimitTest, FailedItemReturnsItsErrorAndTheOthersContinue) {
  const auto build = [](int item, const std::stop_token&) -> absl::StatusOr<int> {
    if (item == 1) return absl::DataLossError("torn");
    if (item == 2) throw std::runtime_error("worn");
    return item;
  };
  ParallelLimit results(executor_, Numbers(4), build, {.limit = 2, .order = Order::kInput});
  EXPECT_EQ(**results.Next(), 0);
  EXPECT_THAT(*results.Next(), StatusIs(absl::StatusCode::kDataLoss, "torn"));
  EXPECT_THAT(*results.Next(), StatusIs(absl::StatusCode::kInternal, "threw: worn"));
  EXPECT_EQ(**results.Next(), 3);
  EXPECT_FALSE(results.Next().has_value());
  EXPECT_FALSE(results.Next().has_value());
}

TEST_F(ParallelLimitTest, StopIsReturnedOnceAsAnAbortError) {
  std::stop_source stop;
  ParallelLimit results(executor_, numbers_, Identity, {.limit = 2, .stop = stop.get_token()});
  ASSERT_TRUE(results.Next().has_value());
  stop.request_stop();
  EXPECT_TRUE(IsAbortError(results.Next()->status()));
  EXPECT_FALSE(results.Next().has_value());
}

TEST_F(ParallelLimitTest, DestructorStopsRunningBuildsAndWaitsForThem) {
  ThreadPool pool(2);
  std::atomic<int> under_way = 0;
  std::atomic<int> built = 0;
  const auto build = [&](int item, const std::stop_token& stop) -> absl::StatusOr<int> {
    ++built;
    if (item == 0) return item;
    ++under_way;
    while (!stop.stop_requested()) std::this_thread::yield();
    --under_way;
    return AbortError();
  };
  {
    ParallelLimit results(pool, numbers_, build, {.limit = 2});
    ASSERT_THAT(*results.Next(), IsOk());
    while (under_way == 0) std::this_thread::yield();
  }
  EXPECT_EQ(under_way, 0);
  EXPECT_EQ(built, 2);
}

TEST_F(ParallelLimitTest, StopWakesAWaitingConsumer) {
  ThreadPool pool(1);
  std::stop_source stop;
  std::atomic<bool> building = false;
  std::atomic<bool> open = false;
  const auto build = [&](int item, const std::stop_token&) -> absl::StatusOr<int> {
    building = true;
    open.wait(false);
    return item;
  };
  ParallelLimit results(pool, Numbers(1), build, {.limit = 1, .stop = stop.get_token()});
  std::thread stopper([&] {
    while (!building) std::this_thread::yield();
    stop.request_stop();
  });
  EXPECT_TRUE(IsAbortError(results.Next()->status())) << "does not wait for the running build";
  stopper.join();
  open = true;
  open.notify_all();
}

TEST_F(ParallelLimitTest, ThreadsBuildInParallel) {
  ThreadPool pool(3);
  ParallelLimit results(pool, Numbers(3000), Identity, {.limit = 3, .order = Order::kInput});
  EXPECT_EQ(Drain(results), Numbers(3000));
}

}  // namespace
}  // namespace callboard::flow
