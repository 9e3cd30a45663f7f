// Agents that are stopped or cut off while they run a task: the run is dead before another agent
// gets the task, and later reports about it have no effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/system/system.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

using test::TcpProxy;
using Direction = TcpProxy::Direction;
using Flow = TcpProxy::Flow;
using ::testing::HasSubstr;
using ::testing::Not;

// Tolerance for comparisons of clocks: the record of a run has hundredths of a second.
constexpr absl::Duration kClockSlack = absl::Milliseconds(50);

class LeaseTest : public testing::Test {
 protected:
  // Returns the time of the agent's last message to the director, on the clock of the run records.
  static absl::Duration LastMessageAt(Cluster& cluster, const std::string& name) {
    const system::SystemClock clock;
    for (const v1::Agent& agent : cluster.client().Agents()) {
      if (agent.name() != name) continue;
      const absl::Time last_message = absl::FromUnixSeconds(agent.last_seen_at().seconds()) +
                                      absl::Nanoseconds(agent.last_seen_at().nanos());
      return clock.MonotonicNow() - (clock.WallNow() - last_message);
    }
    ADD_FAILURE() << name << " is not known";
    return absl::ZeroDuration();
  }

  // Submits a task whose first run does not end; later runs last until Open().
  static std::string Submit(Cluster& cluster) {
    return cluster.client().Submit(cluster.Task(absl::StrCat(
        "case $CALLBOARD_FENCE in */1/*) sleep 1000;; esac; ", cluster.WaitForGate())));
  }

  // Waits until the run is dead, and checks that no other agent has the task by then.
  static void ExpectDeadBeforeNextDispatch(Cluster& cluster, const RunLine& run,
                                           v1::Task::State state) {
    EXPECT_TRUE(WaitUntilTrue(absl::Minutes(1), [&] { return !test::IsAlive(run.pid); }));
    const v1::Task task = cluster.client().Get(run.token.queue_id);
    EXPECT_EQ(task.state(), state);
    EXPECT_EQ(task.dispatch(), run.token.dispatch);
  }

  // Checks that the second run ends the task, whatever the first one reports.
  static v1::Task ExpectSecondRunEndsIt(Cluster& cluster, const std::string& id) {
    const v1::Task task = cluster.client().WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 2u);
    EXPECT_EQ(task.attempts(), 1u);
    return task;
  }
};

TEST_F(LeaseTest, RunOfAStoppedAgentIsDeadBeforeTheNextRun) {
  Cluster cluster(test::NewFolder(), {});
  const system::SystemClock clock;
  const std::string id = Submit(cluster);
  const RunLine run = cluster.WaitForRun(id, 1);
  const v1::Task killed = cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
  cluster.agent(1).Freeze();
  const absl::Duration frozen = clock.MonotonicNow();
  ExpectDeadBeforeNextDispatch(cluster, run, v1::Task::STATE_WORKING);
  cluster.WaitForRun(id, 2);
  LetTimePass(frozen + 3 * absl::Seconds(kRedispatchSeconds) - clock.MonotonicNow());
  for (size_t i = 1; i <= 2; ++i) cluster.agent(i).network().RecordAnswers();
  cluster.agent(1).Thaw();
  cluster.client().WaitForAgents(2);
  const v1::Task elsewhere = cluster.client().Get(id);
  EXPECT_EQ(elsewhere.state(), v1::Task::STATE_WORKING);
  EXPECT_EQ(elsewhere.dispatch(), 2u);
  cluster.Open();
  const v1::Task ended = ExpectSecondRunEndsIt(cluster, id);
  const Cluster::CheckResult check_result = cluster.Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.runs.runs, 2u);
  // Only a result contains the id of its run.
  EXPECT_THAT(cluster.agent(2).network().answers(), HasSubstr(ended.task_id()));
  EXPECT_THAT(cluster.agent(1).network().answers(), HasSubstr(id))
      << "it was asked for its inventory";
  EXPECT_THAT(cluster.agent(1).network().answers(), Not(HasSubstr(killed.task_id())));
  EXPECT_EQ(check_result.runs.orphaned, 0u);
}

TEST_F(LeaseTest, UnansweredStartMovesOnlyAfterItsLease) {
  Cluster cluster(test::NewFolder(), {});
  TcpProxy& network = cluster.agent(1).network();
  network.Set(Direction::kToClient, Flow::kDropped);
  // The lease begins at this time, because nothing more arrives from the agent.
  const absl::Duration last_message = LastMessageAt(cluster, "agent-1");
  const std::string id = Submit(cluster);
  const RunLine run = cluster.WaitForRun(id, 1);
  network.Accept(false);
  network.Cut();
  // Another agent is idle all the time.
  ExpectDeadBeforeNextDispatch(cluster, run, v1::Task::STATE_DISPATCHING);
  const absl::Duration elsewhere = absl::Seconds(cluster.WaitForRun(id, 2).at);
  EXPECT_GE(elsewhere - last_message, absl::Seconds(kRedispatchSeconds) - kClockSlack);
  network.Set(Direction::kToClient, Flow::kForwarded);
  network.Accept(true);
  cluster.client().WaitForAgents(2);
  cluster.Open();
  ExpectSecondRunEndsIt(cluster, id);
  const Cluster::CheckResult check_result = cluster.Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

// Held bytes arrive late, as after a network outage; dropped ones never arrive.
TEST_F(LeaseTest, RunBehindAHalfOpenLinkIsDeadBeforeTheNextRun) {
  const auto cut_off = [](const std::filesystem::path& folder, Direction direction, Flow flow) {
    Cluster cluster(folder, {});
    const std::string id = Submit(cluster);
    const RunLine run = cluster.WaitForRun(id, 1);
    cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
    cluster.agent(1).network().Set(direction, flow);
    ExpectDeadBeforeNextDispatch(cluster, run, v1::Task::STATE_WORKING);
    cluster.WaitForRun(id, 2);
    cluster.agent(1).network().Set(direction, Flow::kForwarded);
    cluster.client().WaitForAgents(2);
    cluster.Open();
    ExpectSecondRunEndsIt(cluster, id);
    const Cluster::CheckResult check_result = cluster.Check();
    EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  };
  // All of them wait for the end of a lease, so they run in parallel.
  std::vector<std::thread> clusters;
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    for (const Flow flow : {Flow::kDropped, Flow::kHeld}) {
      clusters.emplace_back(cut_off, test::NewFolder(), direction, flow);
    }
  }
  for (std::thread& cluster : clusters) cluster.join();
}

}  // namespace
}  // namespace callboard::e2e
