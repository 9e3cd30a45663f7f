#include "libs/flow/flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "libs/flow/abort.h"
#include "libs/flow/limits.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/status_matchers.h"

namespace callboard::flow {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

FlowOptions OneLane(uint32_t concurrency, uint32_t max_pending) {
  return {.lanes = {{.name = "work", .limit = {concurrency, max_pending}}}};
}

// Runs without threads: jobs run while a caller waits, or when the test runs them.
class FlowTest : public testing::Test {
 protected:
  ports::Executor::Job Append(int number) {
    return [this, number] { ran_.push_back(number); };
  }

  test::FakeClock clock_;
  test::ManualExecutor executor_{clock_};
  std::vector<int> ran_;
};

TEST_F(FlowTest, LanesUseTheGivenLimits) {
  Flow flow({.lanes = StandardLanes({.cpu = {32, 5}, .io = {12, 7}, .proc = {3, 9}})}, executor_,
            clock_);
  EXPECT_EQ(flow.lane("io").limit(), (LaneLimit{12, 7}));
  EXPECT_EQ(flow.lane("cpu").limit(), (LaneLimit{32, 5}));
  EXPECT_EQ(flow.lane("proc").limit(), (LaneLimit{3, 9}));
  EXPECT_EQ(flow.Find("gpu"), nullptr);
}

TEST_F(FlowTest, TryAddToAFullLaneReturnsAnErrorWithTheLane) {
  Flow flow(OneLane(1, 2), executor_, clock_);
  Lane& lane = flow.lane("work");
  for (int i = 1; i <= 3; ++i) ASSERT_THAT(lane.TryAdd(Append(i)), IsOk());
  const absl::Status full = lane.TryAdd(Append(4));
  EXPECT_THAT(
      full, StatusIs(absl::StatusCode::kResourceExhausted, "lane work is at capacity (2 pending)"));
  EXPECT_THAT(full, HasReason("LANE_FULL"));
  executor_.RunAll();
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
}

TEST_F(FlowTest, CountsDistinguishPendingInFlightAndReserved) {
  Flow flow(OneLane(1, 3), executor_, clock_);
  Lane& lane = flow.lane("work");
  ASSERT_THAT(lane.TryAdd(Append(1)), IsOk());
  ASSERT_THAT(lane.TryAdd(Append(2)), IsOk());
  {
    const absl::StatusOr<LaneReservation> place = lane.TryReserve();
    ASSERT_THAT(place, IsOk());
    EXPECT_EQ(lane.counts().in_flight, 1u);
    EXPECT_EQ(lane.counts().pending, 1u);
    EXPECT_EQ(lane.counts().reserved, 1u);
  }
  EXPECT_EQ(lane.counts().reserved, 0u) << "an unused place is returned";
}

TEST_F(FlowTest, WaiterGetsAPlaceWhenAJobEnds) {
  Flow flow(OneLane(1, 1), executor_, clock_);
  Lane& lane = flow.lane("work");
  for (int i = 1; i <= 5; ++i) ASSERT_THAT(lane.Add(Append(i)), IsOk());
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3)) << "the last Add() waited for these";
  executor_.RunAll();
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(FlowTest, StopEndsTheWaitAndAddsNothing) {
  Flow flow(OneLane(1, 1), executor_, clock_);
  Lane& lane = flow.lane("work");
  std::stop_source stop;
  ASSERT_THAT(lane.Add([&] { stop.request_stop(); }), IsOk());
  ASSERT_THAT(lane.Add(Append(1)), IsOk());
  // The job that requests the stop also makes room when it ends. Add() returns the granted place.
  EXPECT_TRUE(IsAbortError(lane.Add(Append(2), stop.get_token())));
  EXPECT_EQ(lane.counts().waiting, 0u);
  EXPECT_EQ(lane.counts().reserved, 0u);
  executor_.RunAll();
  EXPECT_THAT(ran_, ElementsAre(1));
}

TEST_F(FlowTest, ReserveReturnsFreePlacesOrWaitsForAllWanted) {
  Flow flow(OneLane(1, 4), executor_, clock_);
  Lane& lane = flow.lane("work");
  for (int i = 1; i <= 4; ++i) ASSERT_THAT(lane.TryAdd(Append(i)), IsOk());
  const absl::StatusOr<LaneReservation> some = lane.Reserve({}, 3);
  ASSERT_THAT(some, IsOk());
  EXPECT_EQ(some->count(), 1u) << "one was free";
  EXPECT_THAT(ran_, IsEmpty());
  const absl::StatusOr<LaneReservation> all = lane.Reserve({}, 3);
  ASSERT_THAT(all, IsOk());
  EXPECT_EQ(all->count(), 3u);
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
}

TEST_F(FlowTest, AddFailsAfterAStopRequest) {
  Flow flow(OneLane(1, 1), executor_, clock_);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(IsAbortError(flow.lane("work").Add(Append(1), stop.get_token())));
  executor_.RunAll();
  EXPECT_THAT(ran_, IsEmpty());
}

TEST_F(FlowTest, WithdrawDropsJobsAndFreesTheirPlaces) {
  Flow flow(OneLane(1, 3), executor_, clock_);
  Lane& lane = flow.lane("work");
  const int owner = 0;
  ASSERT_THAT(lane.TryAdd(Append(1)), IsOk());
  const auto kept_by_work = std::make_shared<int>(0);
  for (int i = 2; i <= 4; ++i) {
    absl::StatusOr<LaneReservation> place = lane.TryReserve();
    ASSERT_THAT(place, IsOk());
    ports::Executor::Job job = [kept_by_work] { FAIL(); };
    std::move(*place).Run(absl::MakeSpan(&job, 1), &owner);
  }
  EXPECT_EQ(lane.Withdraw(&owner), 3u);
  EXPECT_EQ(kept_by_work.use_count(), 1);
  EXPECT_EQ(lane.counts().pending, 0u);
  executor_.RunAll();
  EXPECT_THAT(ran_, ElementsAre(1));
}

TEST_F(FlowTest, WithdrawnJobNoLongerReservesTokens) {
  Flow flow({.lanes = {{.name = "small", .limit = {2, 8}, .demand = {.memory = 1}},
                       {.name = "big", .limit = {1, 8}, .demand = {.memory = 2}}},
             .tokens = Tokens{.memory = 2},
             .starvation = absl::Seconds(5)},
            executor_, clock_);
  const int owner = 0;
  ASSERT_THAT(flow.lane("small").TryAdd(Append(1)), IsOk());
  absl::StatusOr<LaneReservation> place = flow.lane("big").TryReserve();
  ports::Executor::Job big = Append(2);
  std::move(*place).Run(absl::MakeSpan(&big, 1), &owner);
  clock_.Advance(absl::Seconds(5));
  ASSERT_THAT(flow.lane("small").TryAdd(Append(3)), IsOk());
  EXPECT_EQ(executor_.size(), 1u) << "one token is kept for the big one";
  flow.lane("big").Withdraw(&owner);
  EXPECT_EQ(executor_.size(), 2u);
}

TEST_F(FlowTest, JobIsDestroyedBeforeItCountsAsDone) {
  Flow flow(OneLane(1, 1), executor_, clock_);
  Lane& lane = flow.lane("work");
  struct RecordOnDestroy {
    ~RecordOnDestroy() { in_flight = lane->counts().in_flight; }
    Lane* lane;
    uint32_t& in_flight;
  };
  uint32_t in_flight = 0;
  ASSERT_THAT(lane.Add([recorder = std::make_unique<RecordOnDestroy>(
                            RecordOnDestroy{&lane, in_flight})] {}),
              IsOk());
  in_flight = 0;
  executor_.RunAll();
  EXPECT_EQ(in_flight, 1u);
  EXPECT_EQ(lane.counts().in_flight, 0u);
}

TEST_F(FlowTest, DestructorWaitsForAllJobs) {
  {
    Flow flow(OneLane(2, 10), executor_, clock_);
    for (int i = 1; i <= 6; ++i) ASSERT_THAT(flow.lane("work").Add(Append(i)), IsOk());
  }
  EXPECT_EQ(ran_.size(), 6u);
}

TEST(FlowDeathTest, JobMustNotWaitForAPlaceInItsOwnFlow) {
  test::FakeClock clock;
  test::ManualExecutor executor(clock);
  EXPECT_DEATH(
      {
        Flow flow(OneLane(1, 1), executor, clock);
        Lane& lane = flow.lane("work");
        lane.TryAdd([&lane] { lane.Add([] {}).IgnoreError(); }).IgnoreError();
        executor.RunAll();
      },
      "must not wait for a place in its own flow");
}

TEST(FlowDeathTest, LaneNamesAreDistinct) {
  test::FakeClock clock;
  test::ManualExecutor executor(clock);
  const FlowOptions options = {.lanes = {{.name = "a"}, {.name = "a"}}};
  EXPECT_DEATH(Flow(options, executor, clock), "a");
}

// ---- With threads -------------------------------------------------------------------------------

TEST(FlowThreadsTest, WaitersAreServedInOrderOfArrival) {
  test::FakeClock clock;
  ThreadPool pool(1);
  Flow flow(OneLane(1, 1), pool, clock);
  Lane& lane = flow.lane("work");
  std::atomic<bool> open = false;
  std::vector<int> order;
  ASSERT_THAT(lane.Add([&] { open.wait(false); }), IsOk());
  ASSERT_THAT(lane.Add([] {}), IsOk());
  std::vector<std::thread> callers;
  for (int i = 0; i < 5; ++i) {
    callers.emplace_back([&, i] { ASSERT_THAT(lane.Add([&, i] { order.push_back(i); }), IsOk()); });
    while (lane.counts().waiting <= static_cast<uint32_t>(i)) std::this_thread::yield();
  }
  EXPECT_THAT(lane.TryAdd([] {}), HasReason("LANE_FULL"));
  open = true;
  open.notify_all();
  for (std::thread& caller : callers) caller.join();
  while (lane.counts().in_flight + lane.counts().pending > 0) std::this_thread::yield();
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3, 4));
}

// A thread that waits for `wanted` places.
class WaitingThread {
 public:
  WaitingThread(Lane& lane, uint32_t wanted, std::stop_token stop = {})
      : before_(lane.counts().waiting), thread_([this, &lane, wanted, stop = std::move(stop)] {
          const absl::StatusOr<LaneReservation> places = lane.Reserve(stop, wanted);
          granted_ = places.ok();
        }) {
    while (lane.counts().waiting < before_ + 1) std::this_thread::yield();
  }
  bool Granted() {
    thread_.join();
    return granted_;
  }

 private:
  const uint32_t before_;
  bool granted_ = false;
  std::thread thread_;
};

// A lane whose only running job blocks until the end of the test.
class FullLaneTest : public testing::Test {
 protected:
  FullLaneTest() {
    EXPECT_THAT(lane_.Add([this] { open_.wait(false); }), IsOk());
    while (lane_.counts().in_flight == 0) std::this_thread::yield();
  }
  ~FullLaneTest() override {
    open_ = true;
    open_.notify_all();
  }

  test::FakeClock clock_;
  std::atomic<bool> open_ = false;
  ThreadPool pool_{1};
  Flow flow_{OneLane(1, 2), pool_, clock_};
  Lane& lane_ = flow_.lane("work");
};

TEST_F(FullLaneTest, ReturnedPlaceGoesToAWaiter) {
  absl::StatusOr<LaneReservation> held = lane_.Reserve({}, 2);
  WaitingThread caller(lane_, 1);
  { const LaneReservation gone = *std::move(held); }
  EXPECT_TRUE(caller.Granted());
}

TEST_F(FullLaneTest, PlaceOfAWithdrawnJobGoesToAWaiter) {
  const int owner = 0;
  ports::Executor::Job jobs[2] = {[] {}, [] {}};
  absl::StatusOr<LaneReservation> places = lane_.Reserve({}, 2);
  std::move(*places).Run(absl::MakeSpan(jobs), &owner);
  WaitingThread caller(lane_, 1);
  lane_.Withdraw(&owner);
  EXPECT_TRUE(caller.Granted());
}

TEST_F(FullLaneTest, StoppedWaiterMakesRoomForTheNext) {
  absl::StatusOr<LaneReservation> one = lane_.Reserve();
  const absl::StatusOr<LaneReservation> other = lane_.Reserve();
  std::stop_source stop;
  WaitingThread big(lane_, 2, stop.get_token());
  WaitingThread small(lane_, 1);
  { const LaneReservation gone = *std::move(one); }
  EXPECT_THAT(lane_.TryReserve(), HasReason("LANE_FULL")) << "waiting callers came first";
  stop.request_stop();
  EXPECT_FALSE(big.Granted());
  EXPECT_TRUE(small.Granted());
}

TEST(FlowThreadsTest, ConcurrentCallersStayWithinLimitsAndEachJobRunsOnce) {
  constexpr int kCallers = 8;
  constexpr int kEach = 500;
  test::FakeClock clock;
  ThreadPool pool(6);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<int> ran = 0;
  {
    Flow flow({.lanes = {{.name = "a", .limit = {3, 4}, .demand = {.cpu = 1}},
                         {.name = "b", .limit = {3, 4}, .demand = {.cpu = 2}}},
               .tokens = Tokens{.cpu = 4}},
              pool, clock);
    std::vector<std::thread> callers;
    for (int i = 0; i < kCallers; ++i) {
      callers.emplace_back([&, tokens = i % 2 + 1] {
        for (int n = 0; n < kEach; ++n) {
          ASSERT_THAT(flow.lane(tokens == 1 ? "a" : "b").Add([&, tokens] {
            const int now = running += tokens;
            int seen = most;
            while (now > seen && !most.compare_exchange_weak(seen, now)) continue;
            ++ran;
            running -= tokens;
          }),
                      IsOk());
        }
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  EXPECT_EQ(ran, kCallers * kEach);
  EXPECT_LE(most, 4);
}

TEST(FlowThreadsTest, StopWakesAWaiter) {
  test::FakeClock clock;
  ThreadPool pool(1);
  Flow flow(OneLane(1, 1), pool, clock);
  Lane& lane = flow.lane("work");
  std::atomic<bool> open = false;
  ASSERT_THAT(lane.Add([&] { open.wait(false); }), IsOk());
  ASSERT_THAT(lane.Add([] {}), IsOk());
  std::stop_source stop;
  absl::Status status;
  std::thread caller([&] { status = lane.Add([] {}, stop.get_token()); });
  while (lane.counts().waiting == 0) std::this_thread::yield();
  stop.request_stop();
  caller.join();
  EXPECT_TRUE(IsAbortError(status));
  open = true;
  open.notify_all();
}

}  // namespace
}  // namespace callboard::flow
