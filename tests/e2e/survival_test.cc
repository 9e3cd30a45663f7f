// A cluster whose parts are repeatedly killed, stopped and cut off.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/system/system.h"
#include "libs/testing/files.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

// Kills directors and agents in turn.
class Killer {
 public:
  explicit Killer(Cluster& cluster) : cluster_(cluster) {}

  // Runs until all work is done or `directors` directors were killed.
  void Run(size_t directors, const std::function<bool()>& is_all_done) {
    while (directors_ < directors && !is_all_done()) {
      LetTimePass(std::min(next_director_, next_agent_) - clock_.MonotonicNow());
      if (next_director_ <= next_agent_) {
        next_director_ += kDirectorEvery;
        Kill(cluster_.director());
        ++directors_;
      } else {
        next_agent_ += kAgentEvery;
        Kill(cluster_.agent(1 + agents_ % cluster_.agents()));
        ++agents_;
      }
    }
  }

 private:
  static constexpr absl::Duration kDirectorEvery = absl::Seconds(2);
  static constexpr absl::Duration kAgentEvery = absl::Seconds(3);

  static void Kill(ServerProcess& member) {
    member.Kill();
    member.Start();
  }

  Cluster& cluster_;
  const system::SystemClock clock_;
  absl::Duration next_director_ = clock_.MonotonicNow() + kDirectorEvery;
  absl::Duration next_agent_ = clock_.MonotonicNow() + kAgentEvery;
  size_t directors_ = 0;
  size_t agents_ = 0;
};

TEST(SurvivalTest, TasksEndOnceDespiteRepeatedKills) {
  constexpr uint64_t kTasks = 100;
  constexpr size_t kDirectorsMax = 25;
  Cluster cluster(test::NewFolder(), {.agents = 3, .are_listed = true});
  std::vector<v1::SubmitTaskRequest> tasks;
  for (uint64_t i = 0; i < kTasks; ++i) {
    tasks.push_back(cluster.Task(absl::StrCat("sleep 0.", 3 + i % 5)));
  }
  // Some tasks exist at the beginning; the others are submitted later.
  std::atomic<uint64_t> submitted = 0;
  const auto submit = [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
      cluster.client().Submit(tasks[i]);
      ++submitted;
    }
  };
  submit(0, kTasks / 2);
  std::thread others([&] {
    for (uint64_t i = kTasks / 2; i < kTasks; ++i) {
      submit(i, i + 1);
      LetTimePass(absl::Milliseconds(200));
    }
  });
  // Killed agents cause no backoffs.
  Killer(cluster).Run(kDirectorsMax, [&] {
    const bool no_more_come = submitted == kTasks;
    return cluster.AllEndWithin(absl::ZeroDuration()) && no_more_come;
  });
  others.join();
  EXPECT_TRUE(cluster.AllEndWithin(absl::Minutes(1)));
  const Cluster::CheckResult check_result = cluster.Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.submits.acknowledged, kTasks);
  EXPECT_EQ(check_result.runs.ended, kTasks);
  EXPECT_GT(check_result.runs.runs, kTasks) << "no kill met a run";
}

}  // namespace
}  // namespace callboard::e2e
