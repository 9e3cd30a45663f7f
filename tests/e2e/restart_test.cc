// Directors and agents that are killed, stopped, or cut off for a moment, and return before any
// lease has ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/error.h"
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

ClusterOptions Agents(size_t count) { return {.agents = count, .director_flags = LongLease()}; }

v1::SubmitTaskRequest NotRequeued(v1::SubmitTaskRequest request) {
  request.set_on_agent_lost(v1::ON_AGENT_LOST_FAIL);
  return request;
}

void ExpectNoViolation(Cluster& cluster) {
  const Cluster::CheckResult check_result = cluster.Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST(RestartTest, KilledDirectorContinuesWithAllTasks) {
  Cluster cluster(test::NewFolder(), Agents(3));
  ClusterClient& client = cluster.client();
  const auto submit = [&] { return client.Submit(cluster.Task(cluster.WaitForGate())); };
  const std::string working = submit();
  client.WaitFor(working, v1::Task::STATE_WORKING);
  // Started, but its answer is held back.
  cluster.agent(2).network().Set(Direction::kToClient, Flow::kHeld);
  const std::string started = submit();
  cluster.WaitForRun(started, 1);
  // The start never arrives.
  cluster.agent(3).network().Set(Direction::kToServer, Flow::kHeld);
  const std::string unsent = submit();
  const std::vector<std::string> pending = {submit(), submit()};
  EXPECT_EQ(client.Get(started).state(), v1::Task::STATE_DISPATCHING);
  EXPECT_EQ(client.Get(unsent).state(), v1::Task::STATE_DISPATCHING);

  cluster.director().Kill();
  cluster.agent(2).network().Set(Direction::kToClient, Flow::kForwarded);
  cluster.agent(3).network().Set(Direction::kToServer, Flow::kForwarded);
  cluster.director().Start();

  client.WaitFor(started, v1::Task::STATE_WORKING);
  EXPECT_EQ(client.Get(pending[0]).position(), 1u);
  EXPECT_EQ(client.Get(pending[1]).position(), 2u);
  cluster.WaitForRun(unsent, 2);
  cluster.Open();
  for (const std::string& id : {working, started, unsent, pending[0], pending[1]}) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), id == unsent ? 2u : 1u);
    EXPECT_EQ(task.attempts(), 0u);
  }
  ExpectNoViolation(cluster);
}

TEST(RestartTest, TasksOfAKilledAgentRunAgainOrAreLost) {
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
  ExpectNoViolation(cluster);
}

TEST(RestartTest, KillingDirectorAndAgentTogetherLosesNothing) {
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
  ExpectNoViolation(cluster);
}

TEST(RestartTest, LostStartAnswerIsRepeatedAndTheTaskRunsOnce) {
  Cluster cluster(test::NewFolder(), Agents(1));
  TcpProxy& network = cluster.agent(1).network();
  network.Set(Direction::kToClient, Flow::kDropped);
  const std::string id = cluster.client().Submit(cluster.Task(cluster.WaitForGate()));
  cluster.WaitForRun(id, 1);
  network.Cut();
  network.Set(Direction::kToClient, Flow::kForwarded);
  cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
  cluster.Open();
  EXPECT_EQ(cluster.client().WaitForEnd(id).dispatch(), 1u);
  ExpectNoViolation(cluster);
}

// Loses the result, and then its acknowledgement.
TEST(RestartTest, LostResultIsRepeatedAndEndsTheTaskOnce) {
  for (const Direction direction : {Direction::kToClient, Direction::kToServer}) {
    Cluster cluster(test::NewFolder(), Agents(1));
    TcpProxy& network = cluster.agent(1).network();
    const std::string id = cluster.client().Submit(cluster.Task(cluster.WaitForGate()));
    const RunLine run = cluster.WaitForRun(id, 1);
    cluster.client().WaitFor(id, v1::Task::STATE_WORKING);
    network.Set(direction, Flow::kDropped);
    cluster.Open();
    test::WaitUntilDead(run.pid);
    if (direction == Direction::kToServer) cluster.client().WaitForEnd(id);
    network.Cut();
    network.Set(direction, Flow::kForwarded);
    EXPECT_EQ(cluster.client().WaitForEnd(id).dispatch(), 1u);
    // The agent has no open reports and accepts other tasks.
    EXPECT_EQ(cluster.client().WaitForEnd(cluster.client().Submit(cluster.Task("true"))).state(),
              v1::Task::STATE_COMPLETED);
    ExpectNoViolation(cluster);
  }
}

TEST(RestartTest, TerminatedDirectorRejectsWaitersAndKeepsItsTasks) {
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
  const absl::Status rejected = answer.get().status();
  EXPECT_TRUE(absl::IsUnavailable(rejected)) << rejected;
  EXPECT_EQ(base::GetErrorDetails(rejected).reason, "QUEUE_DRAINING");
  EXPECT_TRUE(base::GetErrorDetails(rejected).retry_after.has_value());
  cluster.director().Start();
  cluster.Open();
  for (const std::string& id : {running, pending, client.Submit(waiting)}) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 1u);
  }
  ExpectNoViolation(cluster);
}

}  // namespace
}  // namespace callboard::e2e
