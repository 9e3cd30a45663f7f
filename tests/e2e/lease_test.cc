// Agents that are stopped or cut off while they run a task: nothing of it is left when another
// agent gets it, and what they have to say of it later changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/process_table.h"
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

// Of the clocks that are compared: a hundredth of a second for the time in a run's record.
constexpr absl::Duration kClockSlack = absl::Milliseconds(50);

class LeaseTest : public testing::Test {
 protected:
  // When the director last heard of the agent, on the clock of the runs' records.
  static absl::Duration HeardAt(Cluster& cluster, const std::string& name) {
    const adapters::SystemClock clock;
    for (const v1::Agent& agent : cluster.client().Agents()) {
      if (agent.name() != name) continue;
      const absl::Time heard = absl::FromUnixSeconds(agent.last_seen_at().seconds()) +
                               absl::Nanoseconds(agent.last_seen_at().nanos());
      return clock.MonotonicNow() - (clock.WallNow() - heard);
    }
    ADD_FAILURE() << name << " is not known";
    return absl::ZeroDuration();
  }

  // Its first run lasts for ever, those after it until Open().
  static std::string Submit(Cluster& cluster) {
    return cluster.client().Submit(cluster.Task(absl::StrCat(
        "case $CALLBOARD_FENCE in */1/*) sleep 1000;; esac; ", cluster.WaitForGate())));
  }

  // Waits until nothing is left of the run, and sees that nobody else has the task by then.
  static void ExpectGoneBeforeItIsElsewhere(Cluster& cluster, const RunLine& run,
                                            v1::Task::State state) {
    EXPECT_TRUE(Eventually(absl::Minutes(1), [&] { return !test::IsAlive(run.pid); }));
    const v1::Task task = cluster.client().Get(run.fence.queue_id);
    EXPECT_EQ(task.state(), state);
    EXPECT_EQ(task.dispatch(), run.fence.dispatch);
  }

  // The second run is the one that counts, whatever is said of the first.
  static v1::Task ExpectSecondRunEndsIt(Cluster& cluster, const std::string& id) {
    const v1::Task task = cluster.client().WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 2u);
    EXPECT_EQ(task.attempts(), 1u);
    return task;
  }
};

TEST_F(LeaseTest, TaskOfAnAgentThatIsStoppedIsDeadBeforeItRunsElsewhereAndStaysSoWhenItWakes) {
  Cluster cluster(test::NewFolder(), {});
  const adapters::SystemClock clock;
  const std::string id = Submit(cluster);
  const RunLine run = cluster.WaitForRun(id, 1);
  const v1::Task killed = cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
  cluster.agent(1).Freeze();
  const absl::Duration frozen = clock.MonotonicNow();
  ExpectGoneBeforeItIsElsewhere(cluster, run, v1::Task::STATE_WORKING);
  cluster.WaitForRun(id, 2);
  Pass(frozen + 3 * absl::Seconds(kRedispatchSeconds) - clock.MonotonicNow());
  for (size_t i = 1; i <= 2; ++i) cluster.agent(i).network().KeepAnswers();
  cluster.agent(1).Thaw();
  cluster.client().WaitForAgents(2);
  const v1::Task elsewhere = cluster.client().Get(id);
  EXPECT_EQ(elsewhere.state(), v1::Task::STATE_WORKING);
  EXPECT_EQ(elsewhere.dispatch(), 2u);
  cluster.Open();
  const v1::Task ended = ExpectSecondRunEndsIt(cluster, id);
  const Cluster::Verdict verdict = cluster.Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
  EXPECT_EQ(verdict.runs.runs, 2u);
  // Of all that an agent says only a result has the name of its run in it.
  EXPECT_THAT(cluster.agent(2).network().answers(), HasSubstr(ended.task_id()));
  EXPECT_THAT(cluster.agent(1).network().answers(), HasSubstr(id)) << "it was asked what it has";
  EXPECT_THAT(cluster.agent(1).network().answers(), Not(HasSubstr(killed.task_id())));
  EXPECT_EQ(verdict.runs.orphaned, 0u);
}

TEST_F(LeaseTest, StartWhoseSessionIsCutBeforeItsAnswerGoesElsewhereOnlyWhenItsLeaseHasEnded) {
  Cluster cluster(test::NewFolder(), {});
  TcpProxy& network = cluster.agent(1).network();
  network.Set(Direction::kToClient, Flow::kSwallowed);
  // The lease begins then: nothing more is heard of the agent.
  const absl::Duration heard = HeardAt(cluster, "agent-1");
  const std::string id = Submit(cluster);
  const RunLine run = cluster.WaitForRun(id, 1);
  network.Accept(false);
  network.Cut();
  // All the time another agent is idle.
  ExpectGoneBeforeItIsElsewhere(cluster, run, v1::Task::STATE_DISPATCHING);
  const absl::Duration elsewhere = absl::Seconds(cluster.WaitForRun(id, 2).at);
  EXPECT_GE(elsewhere - heard, absl::Seconds(kRedispatchSeconds) - kClockSlack);
  network.Set(Direction::kToClient, Flow::kThrough);
  network.Accept(true);
  cluster.client().WaitForAgents(2);
  cluster.Open();
  ExpectSecondRunEndsIt(cluster, id);
  const Cluster::Verdict verdict = cluster.Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

// Held bytes come late, as those of a network that was gone for a while; swallowed ones never.
TEST_F(LeaseTest, TaskOfAnAgentThatIsCutOffInOneDirectionIsDeadBeforeItRunsElsewhere) {
  const auto cut_off = [](const std::filesystem::path& folder, Direction direction, Flow flow) {
    Cluster cluster(folder, {});
    const std::string id = Submit(cluster);
    const RunLine run = cluster.WaitForRun(id, 1);
    cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
    cluster.agent(1).network().Set(direction, flow);
    ExpectGoneBeforeItIsElsewhere(cluster, run, v1::Task::STATE_WORKING);
    cluster.WaitForRun(id, 2);
    cluster.agent(1).network().Set(direction, Flow::kThrough);
    cluster.client().WaitForAgents(2);
    cluster.Open();
    ExpectSecondRunEndsIt(cluster, id);
    const Cluster::Verdict verdict = cluster.Check();
    EXPECT_TRUE(verdict.ok()) << verdict.ToString();
  };
  // All of them wait for a lease to end: together.
  std::vector<std::thread> clusters;
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    for (const Flow flow : {Flow::kSwallowed, Flow::kHeld}) {
      clusters.emplace_back(cut_off, test::NewFolder(), direction, flow);
    }
  }
  for (std::thread& cluster : clusters) cluster.join();
}

}  // namespace
}  // namespace callboard::e2e
