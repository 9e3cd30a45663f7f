// Directors and agents that are killed, told to go, or cut off for a moment, and are back before
// any lease has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/error.h"
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

ClusterOptions Agents(size_t count) { return {.agents = count, .director_flags = LongLease()}; }

v1::SubmitTaskRequest NotRequeued(v1::SubmitTaskRequest request) {
  request.set_on_agent_lost(v1::ON_AGENT_LOST_FAIL);
  return request;
}

void ExpectAllIsWell(Cluster& cluster) {
  const Cluster::Verdict verdict = cluster.Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

TEST(RestartTest, DirectorThatIsKilledGoesOnWithWhatWaitsIsBeingStartedAndRuns) {
  Cluster cluster(test::NewFolder(), Agents(3));
  ClusterClient& client = cluster.client();
  const auto submit = [&] { return client.Submit(cluster.Task(cluster.WaitForGate())); };
  const std::string working = submit();
  client.WaitFor(working, v1::Task::STATE_WORKING);
  // Begun, and nobody hears of it.
  cluster.agent(2).network().Set(Direction::kToClient, Flow::kHeld);
  const std::string begun = submit();
  cluster.WaitForRun(begun, 1);
  // On its way for ever.
  cluster.agent(3).network().Set(Direction::kToServer, Flow::kHeld);
  const std::string unheard = submit();
  const std::vector<std::string> pending = {submit(), submit()};
  EXPECT_EQ(client.Get(begun).state(), v1::Task::STATE_DISPATCHING);
  EXPECT_EQ(client.Get(unheard).state(), v1::Task::STATE_DISPATCHING);

  cluster.director().Kill();
  cluster.agent(2).network().Set(Direction::kToClient, Flow::kThrough);
  cluster.agent(3).network().Set(Direction::kToServer, Flow::kThrough);
  cluster.director().Start();

  client.WaitFor(begun, v1::Task::STATE_WORKING);
  EXPECT_EQ(client.Get(pending[0]).position(), 1u);
  EXPECT_EQ(client.Get(pending[1]).position(), 2u);
  cluster.WaitForRun(unheard, 2);
  cluster.Open();
  for (const std::string& id : {working, begun, unheard, pending[0], pending[1]}) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), id == unheard ? 2u : 1u);
    EXPECT_EQ(task.attempts(), 0u);
  }
  ExpectAllIsWell(cluster);
}

TEST(RestartTest, AgentThatIsKilledTakesItsProcessesAlongAndItsTasksRunAgainOrAreLost) {
  ClusterOptions options = Agents(1);
  options.agent_flags = {"--lanes=default=2"};
  Cluster cluster(test::NewFolder(), options);
  ClusterClient& client = cluster.client();
  const std::string requeued = client.Submit(cluster.Task(cluster.WaitForGate()));
  const std::string lost = client.Submit(NotRequeued(cluster.Task(cluster.WaitForGate())));
  const RunLine runs[] = {cluster.WaitForRun(requeued, 1), cluster.WaitForRun(lost, 1)};
  client.WaitFor(lost, v1::Task::STATE_WORKING);
  client.WaitFor(requeued, v1::Task::STATE_WORKING);
  cluster.agent(1).Kill();
  for (const RunLine& run : runs) test::WaitUntilDead(run.pid);
  cluster.agent(1).Start();
  EXPECT_EQ(client.WaitForEnd(lost).reason(), v1::Task::REASON_AGENT_LOST);
  cluster.WaitForRun(requeued, 2);
  cluster.Open();
  EXPECT_EQ(client.WaitForEnd(requeued).state(), v1::Task::STATE_COMPLETED);
  ExpectAllIsWell(cluster);
}

TEST(RestartTest, DirectorAndAgentThatAreKilledTogetherLoseNothing) {
  Cluster cluster(test::NewFolder(), Agents(1));
  ClusterClient& client = cluster.client();
  const std::string running = client.Submit(cluster.Task(cluster.WaitForGate()));
  const std::string pending = client.Submit(cluster.Task("true"));
  client.WaitFor(running, v1::Task::STATE_WORKING);
  cluster.WaitForRun(running, 1);
  cluster.director().Kill();
  cluster.agent(1).Kill();
  cluster.director().Start();
  cluster.agent(1).Start();
  cluster.WaitForRun(running, 2);
  cluster.Open();
  EXPECT_EQ(client.WaitForEnd(running).attempts(), 1u);
  EXPECT_EQ(client.WaitForEnd(pending).dispatch(), 1u);
  ExpectAllIsWell(cluster);
}

TEST(RestartTest, AnswerThatIsLostOnItsWayIsGivenAgainAndTheTaskRunsOnce) {
  Cluster cluster(test::NewFolder(), Agents(1));
  TcpProxy& network = cluster.agent(1).network();
  network.Set(Direction::kToClient, Flow::kSwallowed);
  const std::string id = cluster.client().Submit(cluster.Task(cluster.WaitForGate()));
  cluster.WaitForRun(id, 1);
  network.Cut();
  network.Set(Direction::kToClient, Flow::kThrough);
  cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
  cluster.Open();
  EXPECT_EQ(cluster.client().WaitForEnd(id).dispatch(), 1u);
  ExpectAllIsWell(cluster);
}

// In either direction: the result, and the word that it has arrived.
TEST(RestartTest, ResultThatIsLostOnItsWayIsReportedAgainAndEndsTheTaskOnce) {
  for (const Direction direction : {Direction::kToClient, Direction::kToServer}) {
    Cluster cluster(test::NewFolder(), Agents(1));
    TcpProxy& network = cluster.agent(1).network();
    const std::string id = cluster.client().Submit(cluster.Task(cluster.WaitForGate()));
    const RunLine run = cluster.WaitForRun(id, 1);
    cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
    network.Set(direction, Flow::kSwallowed);
    cluster.Open();
    test::WaitUntilDead(run.pid);
    if (direction == Direction::kToServer) cluster.client().WaitForEnd(id);
    network.Cut();
    network.Set(direction, Flow::kThrough);
    EXPECT_EQ(cluster.client().WaitForEnd(id).dispatch(), 1u);
    // The agent has nothing more to say: it is there for others.
    EXPECT_EQ(cluster.client().WaitForEnd(cluster.client().Submit(cluster.Task("true"))).state(),
              v1::Task::STATE_COMPLETED);
    ExpectAllIsWell(cluster);
  }
}

TEST(RestartTest, DirectorThatIsToldToGoSendsItsWaitersAwayAndFindsItsTasksAgain) {
  ClusterOptions options = Agents(1);
  options.director_flags.push_back("--queue.max_size=1");
  options.director_flags.push_back("--queue.policy=block");
  Cluster cluster(test::NewFolder(), options);
  ClusterClient& client = cluster.client();
  const std::string running = client.Submit(cluster.Task(cluster.WaitForGate()));
  client.WaitFor(running, v1::Task::STATE_WORKING);
  const std::string pending = client.Submit(cluster.Task("true"));
  const v1::SubmitTaskRequest waiting = cluster.Task("true");
  auto answer = std::async(std::launch::async, [&] { return client.TrySubmit(waiting); });
  while (client.Status().waiting() == 0) {
  }
  EXPECT_EQ(cluster.director().Terminate(), 0);
  const absl::Status refused = answer.get().status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_EQ(base::DetailsOf(refused).reason, "QUEUE_DRAINING");
  EXPECT_TRUE(base::DetailsOf(refused).retry_after.has_value());
  cluster.director().Start();
  cluster.Open();
  for (const std::string& id : {running, pending, client.Submit(waiting)}) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 1u);
  }
  ExpectAllIsWell(cluster);
}

}  // namespace
}  // namespace callboard::e2e
