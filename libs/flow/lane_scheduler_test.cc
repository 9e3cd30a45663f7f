#include "libs/flow/lane_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libs/testing/fake_environment.h"

namespace callboard::flow {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Identifies work by a number. Times are in seconds.
class LaneSchedulerTest : public testing::Test {
 protected:
  void Configure(FlowOptions options) { lane_scheduler_.emplace(std::move(options)); }

  void Push(size_t lane, int number, int now = 0) {
    lane_scheduler_->Reserve(lane);
    lane_scheduler_->Push({.lane = lane, .job = [this, number] { ran_.push_back(number); }},
                          absl::Seconds(now));
  }
  // Starts all work that may run now and returns its numbers. Does not call Done().
  std::vector<int> Ready(int now = 0) {
    ran_.clear();
    while (std::optional<Work> work = lane_scheduler_->Next(absl::Seconds(now))) work->job();
    return ran_;
  }

  std::optional<LaneScheduler> lane_scheduler_;
  std::vector<int> ran_;
};

LaneOptions WithLimit(uint32_t concurrency, uint32_t max_pending = 100) {
  return {.name = "lane", .limit = {concurrency, max_pending}};
}

TEST_F(LaneSchedulerTest, LaneRunsUpToItsConcurrencyFirstComeFirstServed) {
  Configure({.lanes = {WithLimit(2)}});
  for (int i = 1; i <= 4; ++i) Push(0, i);
  EXPECT_THAT(Ready(), ElementsAre(1, 2));
  lane_scheduler_->Done(0);
  EXPECT_THAT(Ready(), ElementsAre(3));
}

TEST_F(LaneSchedulerTest, PlainLanesObserveOnlyTheirOwnLimits) {
  Configure({.lanes = {WithLimit(1), WithLimit(1)}});
  Push(0, 1);
  Push(0, 2);
  Push(1, 3);
  EXPECT_THAT(Ready(), ElementsAre(1, 3));
}

TEST_F(LaneSchedulerTest, RoomExcludesPendingAndReservedPlaces) {
  Configure({.lanes = {WithLimit(1, 3)}});
  Push(0, 1);
  lane_scheduler_->Reserve(0);
  EXPECT_EQ(lane_scheduler_->Room(0), 1u);
  lane_scheduler_->Release(0);
  EXPECT_EQ(lane_scheduler_->Room(0), 2u);
  EXPECT_THAT(Ready(), ElementsAre(1));
  EXPECT_EQ(lane_scheduler_->Room(0), 3u) << "running work is not pending";
}

FlowOptions TwoLanes(Tokens tokens, LaneOptions first, LaneOptions second) {
  first.limit = second.limit = {10, 100};
  return {.lanes = {first, second}, .tokens = tokens, .starvation = absl::Seconds(5)};
}

TEST_F(LaneSchedulerTest, LanesShareTokens) {
  Configure(TwoLanes({.io = 2}, {.demand = {.io = 1}}, {.demand = {.io = 1}}));
  Push(0, 1);
  Push(1, 2);
  Push(0, 3);
  EXPECT_THAT(Ready(), ElementsAre(1, 2));
  lane_scheduler_->Done(1);
  EXPECT_THAT(Ready(), ElementsAre(3));
}

TEST_F(LaneSchedulerTest, HigherPriorityRunsFirst) {
  Configure(TwoLanes({.cpu = 1}, {.priority = Priority::kLow, .demand = {.cpu = 1}},
                     {.priority = Priority::kHigh, .demand = {.cpu = 1}}));
  Push(0, 1);
  Push(1, 2);
  EXPECT_THAT(Ready(), ElementsAre(2));
}

TEST_F(LaneSchedulerTest, StarvingLaneGoesBeforeEveryPriority) {
  Configure(TwoLanes({.cpu = 1}, {.priority = Priority::kLow, .demand = {.cpu = 1}},
                     {.priority = Priority::kHigh, .demand = {.cpu = 1}}));
  Push(0, 1, 0);
  Push(1, 2, 3);
  EXPECT_THAT(Ready(4), ElementsAre(2)) << "no work has waited for 5 s";
  lane_scheduler_->Done(1);
  Push(1, 3, 5);
  EXPECT_THAT(Ready(5), ElementsAre(1));
}

TEST_F(LaneSchedulerTest, StarvingLaneStartsOneJobAtATime) {
  Configure(TwoLanes({.cpu = 1}, {.priority = Priority::kLow, .demand = {.cpu = 1}},
                     {.priority = Priority::kHigh, .demand = {.cpu = 1}}));
  for (int i = 1; i <= 3; ++i) Push(0, i, 0);
  Push(1, 11, 9);
  Push(1, 12, 9);
  EXPECT_THAT(Ready(10), ElementsAre(1));
  lane_scheduler_->Done(0);
  EXPECT_THAT(Ready(10), ElementsAre(11)) << "2 has waited as long, but its lane just ran 1";
  lane_scheduler_->Done(1);
  EXPECT_THAT(Ready(15), ElementsAre(2));
  lane_scheduler_->Done(0);
  EXPECT_THAT(Ready(15), ElementsAre(12));
}

TEST_F(LaneSchedulerTest, SmallJobPassesALargeJobWithoutFreeTokens) {
  Configure(TwoLanes({.memory = 4}, {.demand = {.memory = 4}}, {.demand = {.memory = 1}}));
  Push(1, 1);
  EXPECT_THAT(Ready(), ElementsAre(1));
  Push(0, 2);
  Push(1, 3);
  EXPECT_THAT(Ready(), ElementsAre(3));
}

TEST_F(LaneSchedulerTest, TokensAreKeptFreeForAStarvingLargeJob) {
  Configure(TwoLanes({.memory = 4}, {.demand = {.memory = 4}}, {.demand = {.memory = 1}}));
  Push(1, 1);
  EXPECT_THAT(Ready(), ElementsAre(1));
  Push(0, 2, 0);
  Push(1, 3, 1);
  EXPECT_THAT(Ready(5), IsEmpty()) << "3 would take tokens that 2 waits for";
  lane_scheduler_->Done(1);
  EXPECT_THAT(Ready(5), ElementsAre(2));
}

TEST_F(LaneSchedulerTest, DemandAboveTheTotalRunsAlone) {
  Configure(TwoLanes({.memory = 2}, {.demand = {.memory = 100}}, {.demand = {.memory = 1}}));
  Push(0, 1);
  Push(1, 2);
  EXPECT_THAT(Ready(), ElementsAre(1));
  lane_scheduler_->Done(0);
  EXPECT_THAT(Ready(), ElementsAre(2));
}

TEST_F(LaneSchedulerTest, WithdrawnJobsNeverRunAndTheOthersKeepTheirOrder) {
  Configure({.lanes = {WithLimit(10)}});
  const int owners[2] = {};
  for (int i = 1; i <= 6; ++i) {
    lane_scheduler_->Reserve(0);
    lane_scheduler_->Push({0, &owners[i % 2], [this, i] { ran_.push_back(i); }},
                          absl::ZeroDuration());
  }
  EXPECT_EQ(lane_scheduler_->Withdraw(0, &owners[0]).size(), 3u);
  EXPECT_THAT(Ready(), ElementsAre(1, 3, 5));
}

// The rules of LaneScheduler, as a search over all pending work.
class NaiveLaneScheduler {
 public:
  explicit NaiveLaneScheduler(const FlowOptions& options) : options_(options) {
    running_.resize(options.lanes.size());
  }

  void Push(size_t lane, int number, absl::Duration now) { queue_.push_back({lane, number, now}); }

  std::optional<int> Next(absl::Duration now) {
    std::vector<size_t> candidates;
    for (size_t i = 0; i < queue_.size(); ++i) {
      if (IsFirstOfItsLane(i) && running_[queue_[i].lane] < limit(i).concurrency) {
        candidates.push_back(i);
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [&](size_t a, size_t b) {
      return Rank(queue_[a], now) < Rank(queue_[b], now);
    });
    int cpu = Free(&Tokens::cpu);
    int memory = Free(&Tokens::memory);
    for (const size_t i : candidates) {
      const int wants_cpu = Demand(queue_[i].lane, &Tokens::cpu);
      const int wants_memory = Demand(queue_[i].lane, &Tokens::memory);
      if (wants_cpu <= cpu && wants_memory <= memory) {
        const Entry started = queue_[i];
        last_start_[started.lane] = now;
        queue_.erase(queue_.begin() + static_cast<ptrdiff_t>(i));
        ++running_[started.lane];
        return started.number;
      }
      if (IsStarved(queue_[i], now)) {
        cpu = std::max(0, cpu - wants_cpu);
        memory = std::max(0, memory - wants_memory);
      }
    }
    return std::nullopt;
  }
  void Done(size_t lane) { --running_[lane]; }

 private:
  struct Entry {
    size_t lane;
    int number;
    absl::Duration pushed_at;
  };

  const LaneLimit& limit(size_t i) const { return options_.lanes[queue_[i].lane].limit; }
  bool IsFirstOfItsLane(size_t i) const {
    return std::none_of(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(i),
                        [&](const Entry& e) { return e.lane == queue_[i].lane; });
  }
  bool IsStarved(const Entry& entry, absl::Duration now) const {
    const auto started = last_start_.find(entry.lane);
    return now - entry.pushed_at >= options_.starvation &&
           (started == last_start_.end() || now - started->second >= options_.starvation);
  }
  int Rank(const Entry& entry, absl::Duration now) const {
    if (IsStarved(entry, now)) return -1;
    return 2 - static_cast<int>(options_.lanes[entry.lane].priority);
  }
  int Demand(size_t lane, uint32_t Tokens::*kind) const {
    return static_cast<int>(std::min(options_.lanes[lane].demand.*kind, (*options_.tokens).*kind));
  }
  int Free(uint32_t Tokens::*kind) const {
    int free = static_cast<int>((*options_.tokens).*kind);
    for (size_t lane = 0; lane < running_.size(); ++lane) {
      free -= static_cast<int>(running_[lane]) * Demand(lane, kind);
    }
    return free;
  }

  const FlowOptions options_;
  std::vector<Entry> queue_;
  std::vector<uint32_t> running_;
  std::map<size_t, absl::Duration> last_start_;
};

FlowOptions RandomOptions(test::FakeRandom& random) {
  FlowOptions options = {.tokens = Tokens{.cpu = static_cast<uint32_t>(random.Below(4)),
                                          .memory = static_cast<uint32_t>(1 + random.Below(8))},
                         .starvation = absl::Seconds(random.Below(10))};
  for (size_t i = 0; i <= random.Below(4); ++i) {
    options.lanes.push_back({.name = std::to_string(i),
                             .limit = {static_cast<uint32_t>(1 + random.Below(4)), 8},
                             .priority = static_cast<Priority>(random.Below(3)),
                             .demand = {.cpu = static_cast<uint32_t>(random.Below(3)),
                                        .memory = static_cast<uint32_t>(random.Below(10))}});
  }
  return options;
}

TEST(LaneSchedulerPropertyTest, OrderEqualsThatOfANaiveSearch) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    test::FakeRandom random(seed);
    const FlowOptions options = RandomOptions(random);
    LaneScheduler scheduler(options);
    NaiveLaneScheduler naive(options);
    std::vector<size_t> running;
    absl::Duration now;
    int last = 0;
    for (int step = 0; step < 200; ++step) {
      now += absl::Seconds(random.Below(3));
      const size_t lane = random.Below(options.lanes.size());
      if (random.Chance(0.6) && scheduler.Room(lane) > 0) {
        scheduler.Reserve(lane);
        scheduler.Push({.lane = lane, .job = [&last, number = step] { last = number; }}, now);
        naive.Push(lane, step, now);
      } else if (!running.empty()) {
        const size_t done = random.Below(running.size());
        scheduler.Done(running[done]);
        naive.Done(running[done]);
        running.erase(running.begin() + static_cast<ptrdiff_t>(done));
      }
      while (true) {
        std::optional<Work> work = scheduler.Next(now);
        const std::optional<int> expected = naive.Next(now);
        ASSERT_EQ(work.has_value(), expected.has_value()) << "seed " << seed << ", step " << step;
        if (!work.has_value()) break;
        work->job();
        ASSERT_EQ(last, *expected) << "seed " << seed << ", step " << step;
        running.push_back(work->lane);
      }
    }
  }
}

}  // namespace
}  // namespace callboard::flow
