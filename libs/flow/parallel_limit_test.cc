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
#include "libs/testing/fake_clock.h"
#include "libs/testing/manual_executor.h"
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

absl::StatusOr<int> Itself(int item, const std::stop_token&) { return item; }

// All values, in the order they were handed out. REQUIRES: none fails.
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

TEST_F(ParallelLimitTest, ResultsComeAsTheyAreReady) {
  ParallelLimit results(executor_, numbers_, Itself, {.limit = 6});
  const std::vector<int> all = Drain(results);
  EXPECT_THAT(all, UnorderedElementsAreArray(numbers_));
  EXPECT_NE(all, numbers_);
}

TEST_F(ParallelLimitTest, ResultsComeInTheOrderOfTheItemsIfAsked) {
  ParallelLimit results(executor_, numbers_, Itself, {.limit = 6, .order = Order::kAsGiven});
  EXPECT_EQ(Drain(results), numbers_);
}

TEST_F(ParallelLimitTest, NoMoreThanTheLimitExistAtOnceEvenIfTheConsumerIsSlow) {
  for (const Order order : {Order::kAsTheyCome, Order::kAsGiven}) {
    int exist = 0;
    int most = 0;
    const auto build = [&](int, const std::stop_token&) -> absl::StatusOr<std::shared_ptr<int>> {
      most = std::max(most, ++exist);
      return std::shared_ptr<int>(new int(0), [&exist](int* heavy) {
        --exist;
        delete heavy;
      });
    };
    ParallelLimit results(executor_, numbers_, build, {.limit = 4, .order = order});
    int handed_out = 0;
    while (auto next = results.Next()) {
      ++handed_out;
      executor_.RunAll();
      EXPECT_LE(exist, 4) << "the one in hand included";
      next.reset();
    }
    EXPECT_EQ(handed_out, 20);
    EXPECT_EQ(most, 4);
  }
}

TEST_F(ParallelLimitTest, ItemsAreTakenFromTheSourceOnlyWhenThereIsRoom) {
  int pulled = 0;
  const auto source = [&]() -> std::optional<int> { return ++pulled; };
  ParallelLimit results(executor_, source, Itself, {.limit = 3});
  EXPECT_EQ(pulled, 0) << "nobody has asked yet";
  ASSERT_TRUE(results.Next().has_value());
  EXPECT_EQ(pulled, 3);
  ASSERT_TRUE(results.Next().has_value());
  EXPECT_EQ(pulled, 4);
}

TEST_F(ParallelLimitTest, FailureOfAnItemIsHandedOutAndTheOthersGoOn) {
  const auto build = [](int item, const std::stop_token&) -> absl::StatusOr<int> {
    if (item == 1) return absl::DataLossError("torn");
    if (item == 2) throw std::runtime_error("worn");
    return item;
  };
  ParallelLimit results(executor_, Numbers(4), build, {.limit = 2, .order = Order::kAsGiven});
  EXPECT_EQ(**results.Next(), 0);
  EXPECT_THAT(*results.Next(), StatusIs(absl::StatusCode::kDataLoss, "torn"));
  EXPECT_THAT(*results.Next(), StatusIs(absl::StatusCode::kInternal, "threw: worn"));
  EXPECT_EQ(**results.Next(), 3);
  EXPECT_FALSE(results.Next().has_value());
  EXPECT_FALSE(results.Next().has_value());
}

TEST_F(ParallelLimitTest, StopIsToldOnceAsAnAbortError) {
  std::stop_source stop;
  ParallelLimit results(executor_, numbers_, Itself, {.limit = 2, .stop = stop.get_token()});
  ASSERT_TRUE(results.Next().has_value());
  stop.request_stop();
  EXPECT_TRUE(IsAbortError(results.Next()->status()));
  EXPECT_FALSE(results.Next().has_value());
}

TEST_F(ParallelLimitTest, WhoLeavesEarlyStopsWhatIsUnderWayAndWaitsForIt) {
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

TEST_F(ParallelLimitTest, StopWakesWhoWaitsForAResult) {
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
  EXPECT_TRUE(IsAbortError(results.Next()->status())) << "although what it builds is not done";
  stopper.join();
  open = true;
  open.notify_all();
}

TEST_F(ParallelLimitTest, ThreadsBuildSideBySide) {
  ThreadPool pool(3);
  ParallelLimit results(pool, Numbers(3000), Itself, {.limit = 3, .order = Order::kAsGiven});
  EXPECT_EQ(Drain(results), Numbers(3000));
}

}  // namespace
}  // namespace callboard::flow
