// How runs are stopped, and how they read their source.
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

TEST_F(RunWithQueueStopTest, StopEndsSchedulingClearsTheQueueAndReturnsAnAbortError) {
  LaneHas(1, 4);
  for (const OnFailure on_failure : {OnFailure::kStop, OnFailure::kGoOn}) {
    std::stop_source stop;
    std::vector<int> began;
    const auto worker = [&](int item, const ItemContext&) -> absl::Status {
      began.push_back(item);
      if (item == 2) stop.request_stop();
      return absl::OkStatus();
    };
    const RunResults<void> run = RunWithQueue(lane(), Numbers(1000), worker,
                                              {.on_failure = on_failure, .stop = stop.get_token()});
    EXPECT_TRUE(IsAbortError(run.status)) << run.status;
    EXPECT_THAT(began, ElementsAre(0, 1, 2));
    EXPECT_EQ(lane().counts().pending, 0u);
    EXPECT_EQ(run.failed, 0u);
  }
}

TEST_F(RunWithQueueStopTest, RunThatIsStoppedBeforeItBeginsTakesNoItem) {
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

TEST_F(RunWithQueueStopTest, WorkerThatHeedsTheStopHasNotFailed) {
  std::stop_source stop;
  int told = 0;
  const auto worker = [&](int, const ItemContext& context) -> absl::Status {
    stop.request_stop();
    return CheckNotAborted(context.stop);
  };
  const RunResults<void> run =
      RunWithQueue(lane(), Numbers(3), worker,
                   {.on_failure = OnFailure::kGoOn, .retries = 3, .stop = stop.get_token()},
                   {.on_error = [&](int, const absl::Status&, const ItemContext&) {
                     ++told;
                     return absl::OkStatus();
                   }});
  EXPECT_TRUE(IsAbortError(run.status));
  EXPECT_EQ(run.failed, 0u);
  EXPECT_EQ(told, 0);
}

TEST_F(RunWithQueueStopTest, AbortErrorWithoutAStopIsAFailureLikeOthers) {
  const auto worker = [](int, const ItemContext&) -> absl::Status { return AbortError("mine"); };
  const RunResults<void> run = RunWithQueue(lane(), Numbers(1), worker);
  EXPECT_EQ(run.failed, 1u);
  EXPECT_EQ(run.status.message(), "mine");
}

TEST_F(RunWithQueueStopTest, StopEndsABackoffAtOnceAndNothingComesAfterTheReturn) {
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
    // Until the item is in its backoff, and the caller has nothing to do but wait.
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
  EXPECT_EQ(item.use_count(), 1) << "nothing of the run is left";
}

// ---- Sources and backpressure -------------------------------------------------------------------

TEST_F(RunWithQueueSourceTest, SourceIsReadOnlyWhenTheLaneHasAPlace) {
  LaneHas(2, 4);
  int pulled = 0;
  int finished = 0;
  int most = 0;
  const auto source = [&]() -> std::optional<int> {
    if (pulled == 10'000) return std::nullopt;
    most = std::max(most, ++pulled - finished);
    return pulled;
  };
  const auto worker = [&](int, const ItemContext&) -> absl::Status {
    ++finished;
    return absl::OkStatus();
  };
  const RunResults<void> run = RunWithQueue(lane(), source, worker);
  EXPECT_EQ(run.succeeded, 10'000u);
  EXPECT_LE(most, 2 + 4);
}

TEST_F(RunWithQueueSourceTest, LongRunKeepsNothingOfItemsThatAreOver) {
  LaneHas(2, 64);
  // Counts items that exist.
  struct Counted {
    explicit Counted(int& exist) : exist(&exist) { ++exist; }
    Counted(Counted&& other) noexcept : exist(other.exist) { ++*exist; }
    ~Counted() { --*exist; }
    int* exist;
  };
  int exist = 0;
  int most = 0;
  int pulled = 0;
  const auto source = [&]() -> std::optional<Counted> {
    most = std::max(most, exist);
    if (pulled++ == 100'000) return std::nullopt;
    return std::optional<Counted>(std::in_place, exist);
  };
  const RunResults<void> run = RunWithQueue(
      lane(), source,
      [](const Counted&, const ItemContext&) -> absl::Status { return absl::OkStatus(); });
  EXPECT_EQ(run.succeeded, 100'000u);
  EXPECT_LE(most, 2 + 64);
  EXPECT_EQ(exist, 0);
}

TEST_F(RunWithQueueSourceTest, ItemsInTheirBackoffCountToo) {
  LaneHas(2, 4);
  int pulled = 0;
  int unfinished = 0;
  int most = 0;
  const auto source = [&]() -> std::optional<int> {
    if (pulled == 200) return std::nullopt;
    most = std::max(most, ++unfinished);
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
  EXPECT_LE(most, 2 + 4);
}

TEST_F(RunWithQueueSourceTest, SourceThatWaitsHoldsNoPlace) {
  LaneHas(1, 1);
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

TEST_F(RunWithQueueSourceTest, RangeThatIsReadOnceWillDo) {
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

TEST_F(RunWithQueueSourceTest, RunsShareALaneAndEachDropsOnlyItsOwn) {
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
