// Tests of RunWithQueue(): stop requests, and reading from the source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libs/flow/abort.h"
#include "libs/flow/run_with_queue.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/run_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::flow {
namespace {

using test::Broken;
using test::Numbers;
using test::StatusIs;
using test::TenfoldOfEven;
using testing::ElementsAre;
using testing::Optional;

using RunWithQueueStopTest = test::RunFixture;
using RunWithQueueSourceTest = test::RunFixture;

// ---- Abort --------------------------------------------------------------------------------------

TEST_F(RunWithQueueStopTest, StopDropsPendingItemsAndReturnsAnAbortError) {
  SetLaneLimit(1, 4);
  for (const OnFailure on_failure : {OnFailure::kStop, OnFailure::kContinue}) {
    std::stop_source stop;
    std::vector<int> started;
    const auto worker = [&](int item, const ItemContext&) -> absl::Status {
      started.push_back(item);
      if (item == 2) stop.request_stop();
      return absl::OkStatus();
    };
    const RunResults<void> run = RunWithQueue(lane(), Numbers(1000), worker,
                                              {.on_failure = on_failure, .stop = stop.get_token()});
    EXPECT_TRUE(IsAbortError(run.status)) << run.status;
    EXPECT_THAT(started, ElementsAre(0, 1, 2));
    EXPECT_EQ(lane().counts().pending, 0u);
    EXPECT_EQ(run.failed, 0u);
  }
}

TEST_F(RunWithQueueStopTest, RunStoppedBeforeItsStartReadsNoItem) {
  std::stop_source stop;
  stop.request_stop();
  int pulled = 0;
  const auto source = [&]() -> std::optional<int> { return ++pulled; };
  const RunResults<int> run =
      RunWithQueue(lane(), source, TenfoldOfEven, {.stop = stop.get_token()});
  EXPECT_TRUE(IsAbortError(run.status));
  EXPECT_EQ(pulled, 0);
}

TEST_F(RunWithQueueStopTest, AbortErrorCanBeChosen) {
  std::stop_source stop;
  stop.request_stop();
  const RunResults<int> run =
      RunWithQueue(lane(), Numbers(1), TenfoldOfEven,
                   {.stop = stop.get_token(), .abort_error = AbortError("Ctrl-C")});
  EXPECT_EQ(run.status.message(), "Ctrl-C");
}

TEST_F(RunWithQueueStopTest, ItemWhoseWorkerObeysTheStopHasNotFailed) {
  std::stop_source stop;
  int error_calls = 0;
  const auto worker = [&](int, const ItemContext& context) -> absl::Status {
    stop.request_stop();
    return CheckNotAborted(context.stop);
  };
  const RunResults<void> run =
      RunWithQueue(lane(), Numbers(3), worker,
                   {.on_failure = OnFailure::kContinue, .retries = 3, .stop = stop.get_token()},
                   {.on_error = [&](int, const absl::Status&, const ItemContext&) {
                     ++error_calls;
                     return absl::OkStatus();
                   }});
  EXPECT_TRUE(IsAbortError(run.status));
  EXPECT_EQ(run.failed, 0u);
  EXPECT_EQ(error_calls, 0);
}

TEST_F(RunWithQueueStopTest, AbortErrorWithoutAStopIsAFailure) {
  const auto worker = [](int, const ItemContext&) -> absl::Status { return AbortError("mine"); };
  const RunResults<void> run = RunWithQueue(lane(), Numbers(1), worker);
  EXPECT_EQ(run.failed, 1u);
  EXPECT_EQ(run.status.message(), "mine");
}

TEST_F(RunWithQueueStopTest, StopEndsABackoffAndNothingRunsAfterTheReturn) {
  std::stop_source stop;
  ThreadPool pool(2);
  Flow flow({.lanes = {{.name = "work", .limit = {1, 1}}}}, pool, clock_);
  std::atomic<int> attempts = 0;
  const auto item = std::make_shared<int>(1);
  const auto worker = [&](const std::shared_ptr<int>&, const ItemContext&) -> absl::Status {
    ++attempts;
    return absl::UnavailableError("never");
  };
  std::thread stopper([&] {
    // Waits until the item is in backoff and the caller can only wait.
    while (attempts == 0 || flow.lane("work").counts().in_flight > 0) std::this_thread::yield();
    stop.request_stop();
  });
  bool pulled = false;
  const auto source = [&]() -> std::optional<std::shared_ptr<int>> {
    if (std::exchange(pulled, true)) return std::nullopt;
    return item;
  };
  const RunResults<void> run =
      RunWithQueue(flow.lane("work"), source, worker,
                   {.retries = 1, .backoff = absl::Hours(1), .stop = stop.get_token()});
  stopper.join();
  EXPECT_TRUE(IsAbortError(run.status));
  EXPECT_EQ(attempts, 1);
  EXPECT_EQ(item.use_count(), 1) << "the run keeps no copy of the item";
}

// ---- Sources and backpressure -------------------------------------------------------------------

TEST_F(RunWithQueueSourceTest, SourceIsReadOnlyWhenTheLaneHasRoom) {
  SetLaneLimit(2, 4);
  int pulled = 0;
  int finished = 0;
  int most_seen = 0;
  const auto source = [&]() -> std::optional<int> {
    if (pulled == 10'000) return std::nullopt;
    most_seen = std::max(most_seen, ++pulled - finished);
    return pulled;
  };
  const auto worker = [&](int, const ItemContext&) -> absl::Status {
    ++finished;
    return absl::OkStatus();
  };
  const RunResults<void> run = RunWithQueue(lane(), source, worker);
  EXPECT_EQ(run.succeeded, 10'000u);
  EXPECT_LE(most_seen, 2 + 4);
}

TEST_F(RunWithQueueSourceTest, LongRunKeepsNoFinishedItems) {
  SetLaneLimit(2, 64);
  // Counts the items that exist.
  struct Counted {
    explicit Counted(int& existing) : existing(&existing) { ++existing; }
    Counted(Counted&& other) noexcept : existing(other.existing) { ++*existing; }
    ~Counted() { --*existing; }
    int* existing;
  };
  int existing = 0;
  int most_seen = 0;
  int pulled = 0;
  const auto source = [&]() -> std::optional<Counted> {
    most_seen = std::max(most_seen, existing);
    if (pulled++ == 100'000) return std::nullopt;
    return std::optional<Counted>(std::in_place, existing);
  };
  const RunResults<void> run = RunWithQueue(
      lane(), source,
      [](const Counted&, const ItemContext&) -> absl::Status { return absl::OkStatus(); });
  EXPECT_EQ(run.succeeded, 100'000u);
  EXPECT_LE(most_seen, 2 + 64);
  EXPECT_EQ(existing, 0);
}

TEST_F(RunWithQueueSourceTest, ItemsInBackoffCountTowardsTheLimit) {
  SetLaneLimit(2, 4);
  int pulled = 0;
  int unfinished = 0;
  int most_seen = 0;
  const auto source = [&]() -> std::optional<int> {
    if (pulled == 200) return std::nullopt;
    most_seen = std::max(most_seen, ++unfinished);
    return pulled++;
  };
  const auto worker = [&](int, const ItemContext& context) -> absl::Status {
    if (context.attempt == 1) return absl::UnavailableError("down");
    --unfinished;
    return absl::OkStatus();
  };
  const RunResults<void> run =
      RunWithQueue(lane(), source, worker, {.retries = 1, .backoff = absl::Seconds(1)});
  EXPECT_EQ(run.succeeded, 200u);
  EXPECT_LE(most_seen, 2 + 4);
}

TEST_F(RunWithQueueSourceTest, BlockingSourceHoldsNoPlace) {
  SetLaneLimit(1, 1);
  bool pulled = false;
  const auto source = [&]() -> std::optional<int> {
    EXPECT_EQ(lane().counts().reserved, 0u);
    if (std::exchange(pulled, true)) return std::nullopt;
    return 2;
  };
  EXPECT_EQ(RunWithQueue(lane(), source, TenfoldOfEven).succeeded, 1u);
}

TEST_F(RunWithQueueSourceTest, ItemsOfARangeAreNotCopied) {
  std::vector<std::unique_ptr<int>> items;
  items.push_back(std::make_unique<int>(3));
  const auto worker = [](const std::unique_ptr<int>& item,
                         const ItemContext&) -> absl::StatusOr<int> { return *item; };
  EXPECT_THAT(RunWithQueue(lane(), items, worker).results, ElementsAre(3));
}

TEST_F(RunWithQueueSourceTest, SinglePassRangeIsSupported) {
  std::istringstream text("one two three");
  struct Words {
    std::istream_iterator<std::string> begin() const { return first; }
    std::istream_iterator<std::string> end() const { return {}; }
    std::istream_iterator<std::string> first;
  };
  const Words words = {std::istream_iterator<std::string>(text)};
  const auto worker = [](const std::string& word,
                         const ItemContext&) -> absl::StatusOr<std::string> { return word; };
  EXPECT_THAT(RunWithQueue(lane(), words, worker).results,
              ElementsAre(Optional(std::string("one")), Optional(std::string("two")),
                          Optional(std::string("three"))));
}

TEST_F(RunWithQueueSourceTest, RunsShareALaneAndEachDropsOnlyItsOwnItems) {
  ThreadPool pool(4);
  Flow flow({.lanes = {{.name = "work", .limit = {2, 4}}}}, pool, clock_);
  RunResults<void> failing;
  std::thread other([&] {
    failing = RunWithQueue(flow.lane("work"), Numbers(5000),
                           [](int item, const ItemContext&) -> absl::Status {
                             return item == 2500 ? Broken(item) : absl::OkStatus();
                           });
  });
  const RunResults<int> whole =
      RunWithQueue(flow.lane("work"), Numbers(5000),
                   [](int item, const ItemContext&) -> absl::StatusOr<int> { return item; });
  other.join();
  EXPECT_EQ(whole.succeeded, 5000u);
  EXPECT_THAT(failing.status, StatusIs(absl::StatusCode::kDataLoss, "broken 2500"));
}

}  // namespace
}  // namespace callboard::flow
