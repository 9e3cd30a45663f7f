#include "libs/flow/run_with_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/error.h"
#include "libs/flow/limits.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/run_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::flow {
namespace {

using test::Broken;
using test::IsOk;
using test::Numbers;
using test::StatusIs;
using test::TenfoldOfEven;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;
using testing::UnorderedElementsAre;

using RunWithQueueTest = test::RunFixture;

// ---- Results and errors -------------------------------------------------------------------------

TEST_F(RunWithQueueTest, ResultsAreInTheOrderOfTheInput) {
  test::ManualExecutor shuffling(clock_, /*seed=*/7);
  Flow flow({.lanes = {{.name = "work", .limit = {4, 4}}}}, shuffling, clock_);
  std::vector<int> finished;
  const auto worker = [&](int item, const ItemContext&) -> absl::StatusOr<int> {
    finished.push_back(item);
    return item * 10;
  };
  const RunResults<int> run = RunWithQueue(flow.lane("work"), Numbers(5), worker);
  EXPECT_THAT(run.status, IsOk());
  EXPECT_THAT(run.results, ElementsAre(0, 10, 20, 30, 40));
  EXPECT_NE(finished, Numbers(5)) << "the items finished in another order";
  EXPECT_EQ(run.succeeded, 5u);
}

TEST_F(RunWithQueueTest, RunWithoutItemsSucceeds) {
  EXPECT_THAT(RunWithQueue(lane(), Numbers(0), TenfoldOfEven).status, IsOk());
}

TEST_F(RunWithQueueTest, FirstFailureStopsTheRunAndIsReturned) {
  SetLaneLimit(1, 2);
  std::vector<int> started;
  const auto worker = [&](int item, const ItemContext&) -> absl::Status {
    started.push_back(item);
    return item == 3 ? Broken(item) : absl::OkStatus();
  };
  const RunResults<void> run = RunWithQueue(lane(), Numbers(1000), worker);
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kDataLoss, "broken 3"));
  EXPECT_THAT(started, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(lane().counts().pending, 0u) << "pending items are dropped";
}

TEST_F(RunWithQueueTest, RunningItemsFinishAfterAFailure) {
  // Both threads of the pool run an item when the first one fails.
  ThreadPool pool(2);
  Flow flow({.lanes = {{.name = "work", .limit = {2, 4}}}}, pool, clock_);
  std::atomic<bool> failed = false;
  std::atomic<int> started = 0;
  std::atomic<bool> finished = false;
  const auto worker = [&](int item, const ItemContext&) -> absl::Status {
    ++started;
    while (started < 2) std::this_thread::yield();
    if (item == 0) {
      failed = true;
      return Broken(item);
    }
    while (!failed) std::this_thread::yield();
    finished = true;
    return absl::OkStatus();
  };
  const RunResults<void> run = RunWithQueue(flow.lane("work"), Numbers(2), worker);
  EXPECT_TRUE(finished);
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kDataLoss, "broken 0"));
  EXPECT_EQ(run.succeeded, 1u);
}

TEST_F(RunWithQueueTest, RunEndsAtTheFirstErrorInTimeBeforeItsCallback) {
  ThreadPool pool(2);
  Flow flow({.lanes = {{.name = "work", .limit = {2, 2}}}}, pool, clock_);
  std::atomic<bool> first_failed = false;
  std::atomic<int> started = 0;
  const auto worker = [&](int item, const ItemContext&) -> absl::Status {
    ++started;
    while (started < 2) std::this_thread::yield();
    while (item == 1 && !first_failed) std::this_thread::yield();
    return Broken(item);
  };
  const RunResults<void> run =
      RunWithQueue(flow.lane("work"), Numbers(100), worker, {},
                   {.on_error = [&](int item, const absl::Status&, const ItemContext&) {
                     if (item == 0) first_failed = true;
                     return absl::OkStatus();
                   }});
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kDataLoss, "broken 0"));
  EXPECT_EQ(run.failed, 2u);
  EXPECT_EQ(started, 2) << "no item starts after the first failure";
}

TEST_F(RunWithQueueTest, ResultsHaveAnEntryForEveryItemOfARange) {
  SetLaneLimit(1, 1);
  const auto worker = [](int item, const ItemContext&) -> absl::StatusOr<int> {
    if (item == 1) return Broken(1);
    return item;
  };
  const RunResults<int> run = RunWithQueue(lane(), Numbers(5), worker);
  EXPECT_THAT(run.results, ElementsAre(0, std::nullopt, std::nullopt, std::nullopt, std::nullopt));
}

TEST_F(RunWithQueueTest, BestEffortRunsAllItemsAndReturnsAllErrors) {
  std::vector<int> delivered;
  std::vector<int> failed;
  const RunResults<int> run =
      RunWithQueue(lane(), Numbers(6), TenfoldOfEven, {.on_failure = OnFailure::kContinue},
                   {.on_result =
                        [&](int item, int result, const ItemContext&) {
                          EXPECT_EQ(result, item * 10);
                          delivered.push_back(item);
                          return absl::OkStatus();
                        },
                    .on_error =
                        [&](int item, const absl::Status& error, const ItemContext&) {
                          EXPECT_EQ(error, Broken(item));
                          failed.push_back(item);
                          return absl::OkStatus();
                        }});
  EXPECT_THAT(run.status,
              StatusIs(absl::StatusCode::kDataLoss, "3 of 6 items failed; item 1: broken 1"));
  EXPECT_THAT(run.results, ElementsAre(0, std::nullopt, 20, std::nullopt, 40, std::nullopt));
  EXPECT_THAT(delivered, UnorderedElementsAre(0, 2, 4));
  EXPECT_THAT(failed, UnorderedElementsAre(1, 3, 5));
  ASSERT_EQ(run.errors.size(), 3u);
  EXPECT_EQ(run.errors[1].index, 3u);
  EXPECT_EQ(run.errors[1].error, Broken(3));
}

TEST_F(RunWithQueueTest, ErrorsBeyondTheLimitAreOnlyCounted) {
  const auto worker = [](int item, const ItemContext&) -> absl::Status { return Broken(item); };
  const RunResults<void> run = RunWithQueue(lane(), Numbers(50), worker,
                                            {.on_failure = OnFailure::kContinue, .errors_max = 3});
  EXPECT_EQ(run.failed, 50u);
  EXPECT_EQ(run.errors.size(), 3u);
  const RunResults<int> uncounted = RunWithQueue(
      lane(), Numbers(3), TenfoldOfEven, {.on_failure = OnFailure::kContinue, .errors_max = 0});
  EXPECT_THAT(uncounted.status,
              StatusIs(absl::StatusCode::kDataLoss, "1 of 3 items failed; item 1: broken 1"));
  EXPECT_THAT(run.status,
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("50 of 50 items failed")));
}

TEST_F(RunWithQueueTest, ExceptionOfAWorkerFailsItsItem) {
  const auto worker = [](int item, const ItemContext&) -> absl::StatusOr<int> {
    if (item == 1) throw std::runtime_error("no such page");
    if (item == 2) throw 42;
    return item;
  };
  const RunResults<int> run =
      RunWithQueue(lane(), Numbers(3), worker, {.on_failure = OnFailure::kContinue});
  ASSERT_EQ(run.errors.size(), 2u);
  EXPECT_THAT(run.errors[0].error, StatusIs(absl::StatusCode::kInternal, "threw: no such page"));
  EXPECT_THAT(run.errors[1].error, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(run.results, ElementsAre(0, std::nullopt, std::nullopt));
}

TEST_F(RunWithQueueTest, ExceptionOfIsTransientFailsItsItem) {
  const auto worker = [](int item, const ItemContext&) -> absl::Status { return Broken(item); };
  const RunResults<void> run = RunWithQueue(
      lane(), Numbers(1), worker, {.retries = 3, .is_transient = [](const absl::Status&) -> bool {
                                     throw std::runtime_error("who knows");
                                   }});
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kInternal, "threw: who knows"));
  EXPECT_EQ(run.failed, 1u);
}

TEST_F(RunWithQueueTest, ExceptionOfTheSourceEndsTheRunAfterRunningItems) {
  ThreadPool pool(2);
  Flow flow({.lanes = {{.name = "work", .limit = {2, 4}}}}, pool, clock_);
  int pulled = 0;
  std::atomic<int> inside = 0;
  const auto source = [&]() -> std::optional<int> {
    if (pulled == 5) throw std::runtime_error("the disk is gone");
    return pulled++;
  };
  const auto worker = [&](int, const ItemContext&) -> absl::Status {
    ++inside;
    std::this_thread::yield();
    --inside;
    return absl::OkStatus();
  };
  const RunResults<void> run = RunWithQueue(flow.lane("work"), source, worker);
  EXPECT_EQ(inside, 0);
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kInternal,
                                   "the source of items: threw: the disk is gone"));
  EXPECT_EQ(flow.lane("work").counts().pending, 0u);
}

TEST(RunWithQueueDeathTest, JobMustNotWaitForARunInItsOwnFlow) {
  test::FakeClock clock;
  test::ManualExecutor executor(clock);
  EXPECT_DEATH(
      {
        Flow flow({.lanes = {{.name = "work", .limit = {1, 8}}}}, executor, clock);
        Lane& lane = flow.lane("work");
        lane.TryAdd([&lane] { RunWithQueue(lane, Numbers(2), TenfoldOfEven); }).IgnoreError();
        executor.RunAll();
      },
      "must not wait for a run in its own flow");
}

// ---- Callbacks ----------------------------------------------------------------------------------

TEST_F(RunWithQueueTest, ErrorOfOnResultFailsTheItemOnce) {
  std::vector<int> error_calls;
  const RunResults<int> run = RunWithQueue(
      lane(), Numbers(3), [](int item, const ItemContext&) -> absl::StatusOr<int> { return item; },
      {.on_failure = OnFailure::kContinue, .retries = 5},
      {.on_result = [](int item, int,
                       const ItemContext&) { return item == 1 ? Broken(1) : absl::OkStatus(); },
       .on_error =
           [&](int item, const absl::Status&, const ItemContext&) {
             error_calls.push_back(item);
             return absl::OkStatus();
           }});
  EXPECT_THAT(error_calls, ElementsAre(1));
  EXPECT_THAT(run.results, ElementsAre(0, std::nullopt, 2));
  EXPECT_EQ(run.failed, 1u);
  EXPECT_EQ(run.succeeded, 2u);
}

TEST_F(RunWithQueueTest, ErrorOfOnErrorIsAddedToTheItemsError) {
  int error_calls = 0;
  const RunResults<int> run =
      RunWithQueue(lane(), std::vector<int>{1}, TenfoldOfEven, {},
                   {.on_error = [&](int, const absl::Status&, const ItemContext&) -> absl::Status {
                     ++error_calls;
                     throw std::runtime_error("the log is full");
                   }});
  EXPECT_EQ(error_calls, 1);
  EXPECT_EQ(run.failed, 1u);
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kDataLoss,
                                   AllOf(HasSubstr("broken 1"), HasSubstr("the log is full"))));
}

TEST_F(RunWithQueueTest, CallbacksRunForOneItemAtATime) {
  ThreadPool pool(4);
  Flow flow({.lanes = {{.name = "work", .limit = {4, 16}}}}, pool, clock_);
  std::atomic<int> inside = 0;
  int unguarded = 0;
  const auto alone = [&] {
    EXPECT_EQ(++inside, 1);
    ++unguarded;
    --inside;
    return absl::OkStatus();
  };
  RunWithQueue(flow.lane("work"), Numbers(2000), TenfoldOfEven,
               {.on_failure = OnFailure::kContinue},
               {.on_result = [&](int, int, const ItemContext&) { return alone(); },
                .on_error = [&](int, const absl::Status&, const ItemContext&) { return alone(); }});
  EXPECT_EQ(unguarded, 2000);
}

TEST_F(RunWithQueueTest, ContextHasIndexAttemptAndToken) {
  std::stop_source stop;
  std::vector<size_t> indexes;
  const std::vector<std::string> words = {"a", "b", "c"};
  const auto worker = [&](const std::string& word, const ItemContext& context) -> absl::Status {
    EXPECT_EQ(word, words[context.index]);
    EXPECT_EQ(context.attempt, 1u);
    EXPECT_EQ(context.stop, stop.get_token());
    indexes.push_back(context.index);
    return absl::OkStatus();
  };
  RunWithQueue(lane(), words, worker, {.stop = stop.get_token()});
  EXPECT_THAT(indexes, UnorderedElementsAre(0, 1, 2));
}

// ---- Retries ------------------------------------------------------------------------------------

TEST_F(RunWithQueueTest, FailedItemIsRetriedWithDoublingBackoff) {
  std::vector<absl::Duration> tried;
  const auto worker = [&](int item, const ItemContext& context) -> absl::StatusOr<int> {
    tried.push_back(clock_.MonotonicNow());
    if (context.attempt < 4) return absl::UnavailableError("not yet");
    return item;
  };
  const RunResults<int> run = RunWithQueue(lane(), std::vector<int>{5}, worker,
                                           {.retries = 3, .backoff = absl::Seconds(2)});
  EXPECT_THAT(run.results, ElementsAre(5));
  ASSERT_EQ(tried.size(), 4u);
  EXPECT_EQ(tried[1] - tried[0], absl::Seconds(2));
  EXPECT_EQ(tried[2] - tried[1], absl::Seconds(4));
  EXPECT_EQ(tried[3] - tried[2], absl::Seconds(8));
}

TEST_F(RunWithQueueTest, BackoffGrowsUpToItsMaximum) {
  std::vector<absl::Duration> tried;
  const auto worker = [&](int, const ItemContext&) -> absl::Status {
    tried.push_back(clock_.MonotonicNow());
    return absl::UnavailableError("never");
  };
  RunWithQueue(lane(), std::vector<int>{1}, worker,
               {.retries = 3, .backoff = absl::Seconds(2), .backoff_max = absl::Seconds(3)});
  ASSERT_EQ(tried.size(), 4u);
  EXPECT_EQ(tried[2] - tried[1], absl::Seconds(3));
  EXPECT_EQ(tried[3] - tried[2], absl::Seconds(3));
}

TEST_F(RunWithQueueTest, ItemFailsWithTheErrorOfItsLastAttempt) {
  int error_calls = 0;
  const auto worker = [](int, const ItemContext& context) -> absl::Status {
    return absl::UnavailableError(absl::StrCat("attempt ", context.attempt));
  };
  const RunResults<void> run =
      RunWithQueue(lane(), std::vector<int>{1}, worker, {.retries = 2},
                   {.on_error = [&](int, const absl::Status&, const ItemContext&) {
                     ++error_calls;
                     return absl::OkStatus();
                   }});
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kUnavailable, "attempt 3"));
  EXPECT_EQ(error_calls, 1);
}

TEST_F(RunWithQueueTest, PermanentErrorIsNotRetried) {
  int attempts = 0;
  const auto worker = [&](int, const ItemContext&) -> absl::Status {
    ++attempts;
    return absl::InvalidArgumentError("never");
  };
  const RunResults<void> run = RunWithQueue(lane(), std::vector<int>{1}, worker,
                                            {.retries = 9, .is_transient = absl::IsUnavailable});
  EXPECT_THAT(run.status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(attempts, 1);
}

TEST_F(RunWithQueueTest, RetryDelayOfAnErrorIsUsedUpToTheMaximum) {
  for (const auto& [asked, waited] : std::map<absl::Duration, absl::Duration>{
           {absl::Seconds(7), absl::Seconds(7)}, {absl::Hours(9), absl::Minutes(1)}}) {
    std::vector<absl::Duration> tried;
    const auto worker = [&](int, const ItemContext& context) -> absl::Status {
      tried.push_back(clock_.MonotonicNow());
      if (context.attempt == 2) return absl::OkStatus();
      return base::WithRetryAfter(absl::ResourceExhaustedError("full"), asked);
    };
    RunWithQueue(lane(), std::vector<int>{1}, worker,
                 {.retries = 1, .backoff = absl::Seconds(1), .backoff_max = absl::Minutes(1)});
    ASSERT_EQ(tried.size(), 2u);
    EXPECT_EQ(tried[1] - tried[0], waited);
  }
}

TEST_F(RunWithQueueTest, ItemInBackoffDoesNotDelayOthers) {
  SetLaneLimit(1, 1);
  std::vector<int> order;
  const auto worker = [&](int item, const ItemContext& context) -> absl::Status {
    order.push_back(item);
    return item == 0 && context.attempt == 1 ? Broken(0) : absl::OkStatus();
  };
  const RunResults<void> run =
      RunWithQueue(lane(), Numbers(5), worker, {.retries = 1, .backoff = absl::Hours(1)});
  EXPECT_THAT(run.status, IsOk());
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4, 0));
}

}  // namespace
}  // namespace callboard::flow
