// Tests of the beginning and end of dispatches, with a real director and an agent that sends what a
// test wants.
//
// Events of a task, and the test that covers each:
//   submit accepted      SubmittedTasksStartInOrder
//   a slot is free       SubmittedTasksStartInOrder
//   accepted, success    SuccessfulRunIsCompletedAndAcknowledged
//   busy                 BusyRequeuesWithoutCountingAnAttempt
//   busy, 5th time       TaskKeepsItsPlaceFromTheFifthBusyOn
//   5xx                  TransientErrorIsRetriedAndCounts
//   never written        UnwrittenStartIsRetriedAndCounts
//   4xx                  TaskErrorEndsTheTask
//   agent at fault       AgentErrorCordonsTheAgent
//   no answer            UnansweredStartIsResentToTheSameAgent
//   Session broke        StartIsResentAfterABrokenSession
//   lease ended          ExpiredLeaseReturnsStartsAndLosesRuns
//   new instance         StartUnknownToARestartedAgentIsRetriedAndCounts
//   exit code            FailedRunFollowsItsRetryRules
//   not in inventory     MissingRunIsLostOrRequeued
//   two agents down      TaskThatKilledTwoAgentsIsPoison
//   deadline_at          TaskPastItsDeadlineIsExpired
//   evicted              EvictedTaskFails
//   attempts = max       LastAgentFailureIsMaxAttempts
//   cancel               CancelledRunEndsWithTheAgentsReport
//   cancel of a start    CancelledStartEndsWithTheAgentsRejection
//   cancel, then result  ResultAfterACancelIsIgnored
//   stale token          StaleResultIsFencedOff
//
// Signals, timeouts and restarts of real agents and directors are in task_test.cc. The director's
// guard against runs that last too long needs more than a minute: the simulation covers it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "libs/testing/scripted_agent.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/integration/director_fixture.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using core::FenceToken;
using core::StartRun;

// A director with one agent, which sends nothing on its own, and the network between them.
struct TestCluster {
  explicit TestCluster(std::vector<std::string> flags = {}, uint32_t slots = 1)
      : slots(slots), director(test::kDirector, [&] {
          flags.push_back(absl::StrCat("--data_dir=", test::NewFolder().string()));
          flags.push_back(absl::StrCat("--fleet.agents=", network.address()));
          return flags;
        }()) {
    Open();
  }

  // Opens the next Session; the agent runs only the dispatches in `running`.
  void Open(const std::string& instance_id = "1", std::vector<FenceToken> running = {}) {
    agent.WaitForSession();
    agent.Send(core::SessionOpened{.name = "agent-1",
                                   .instance_id = instance_id,
                                   .lanes = {{"default", {.slots = slots}}},
                                   .agent_time = absl::Seconds(1),
                                   .running = std::move(running)});
  }
  void ReportFree() { agent.Send(core::LoadReport{{{"default", {slots, 0}}}}); }
  // Starts a task that the agent accepts.
  FenceToken Run(const std::string& id) {
    const FenceToken token = agent.NextMessage<StartRun>().token;
    agent.Accept(token);
    client.WaitFor(id, v1::Task::STATE_WORKING);
    return token;
  }
  v1::Agent ListedAgent() {
    grpc::ClientContext context;
    v1::ListAgentsResponse response;
    const auto fleet = v1::FleetService::NewStub(director.NewChannel());
    EXPECT_TRUE(fleet->ListAgents(&context, {}, &response).ok());
    return response.agents_size() == 1 ? response.agents(0) : v1::Agent();
  }

  const uint32_t slots;
  test::ScriptedAgent agent;
  test::TcpProxy network{agent.address()};
  test::RunningServer director;
  test::TaskClient client{director};
};

v1::SubmitTaskRequest RequeueOnLoss() {
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.set_on_agent_lost(v1::ON_AGENT_LOST_REQUEUE);
  return request;
}

TEST(DispatchTest, SubmittedTasksStartInOrder) {
  TestCluster cluster;
  const std::string first = cluster.client.Submit("first");
  const std::string second = cluster.client.Submit("second");
  const FenceToken token = cluster.Run(first);
  EXPECT_EQ(cluster.client.Get(second).position(), 1u);
  EXPECT_EQ(cluster.client.Get(cluster.client.Submit("third")).position(), 2u);
  cluster.agent.Finish(token);
  EXPECT_EQ(cluster.agent.NextMessage<core::ResultAck>().token, token);
  EXPECT_EQ(cluster.agent.NextMessage<StartRun>().run->prompt, "second");
}

TEST(DispatchTest, ReadyAndDelayedTasksAreListedSeparately) {
  TestCluster cluster;
  const std::string running = cluster.client.Submit("running");
  cluster.Run(running);
  const std::string ready = cluster.client.Submit("ready");
  v1::SubmitTaskRequest later;
  later.set_prompt("later");
  later.mutable_earliest_start_at()->set_seconds(cluster.client.Get(ready).created_at().seconds() +
                                                 3600);
  const std::string delayed = cluster.client.Submit(later);
  const auto list = [&cluster](bool is_ready) {
    grpc::ClientContext context;
    v1::ListTasksRequest request;
    request.set_ready(is_ready);
    request.add_states(v1::Task::STATE_PENDING);
    v1::ListTasksResponse response;
    EXPECT_TRUE(cluster.client.stub().ListTasks(&context, request, &response).ok());
    std::vector<std::string> ids;
    for (const v1::Task& task : response.tasks()) ids.push_back(task.queue_id());
    return ids;
  };
  EXPECT_THAT(list(true), testing::ElementsAre(ready));
  EXPECT_THAT(list(false), testing::ElementsAre(delayed));
}

TEST(DispatchTest, SuccessfulRunIsCompletedAndAcknowledged) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  const StartRun start = cluster.agent.NextMessage<StartRun>();
  EXPECT_EQ(start.run->prompt, "task");
  EXPECT_EQ(core::ToString(start.token.queue_id), id);
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  cluster.agent.Accept(start.token);
  cluster.client.WaitFor(id, v1::Task::STATE_WORKING);
  cluster.agent.Finish(start.token, {.exit_code = 0, .result = "42"});
  EXPECT_EQ(cluster.client.WaitFor(id, v1::Task::STATE_COMPLETED).result(), "42");
  EXPECT_EQ(cluster.agent.NextMessage<core::ResultAck>().token, start.token);
}

TEST(DispatchTest, BusyRequeuesWithoutCountingAnAttempt) {
  TestCluster cluster;
  const std::string first = cluster.client.Submit("first");
  const std::string second = cluster.client.Submit("second");
  const StartRun start = cluster.agent.NextMessage<StartRun>();
  EXPECT_EQ(start.run->prompt, "first");
  cluster.agent.Reject(start.token, base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
  const v1::Task busy = cluster.client.WaitFor(first, v1::Task::STATE_PENDING);
  EXPECT_EQ(busy.position(), 2u);
  EXPECT_EQ(busy.busy_rejections(), 1u);
  EXPECT_EQ(busy.attempts(), 0u);
  EXPECT_EQ(cluster.client.Get(second).position(), 1u);
  // The agent is full until its next load report.
  cluster.ReportFree();
  EXPECT_EQ(cluster.agent.NextMessage<StartRun>().run->prompt, "second");
}

TEST(DispatchTest, TaskKeepsItsPlaceFromTheFifthBusyOn) {
  TestCluster cluster;
  cluster.client.Submit("a");
  cluster.client.Submit("b");
  std::string started;
  for (int i = 1; i <= 10; ++i) {
    const StartRun start = cluster.agent.NextMessage<StartRun>();
    absl::StrAppend(&started, start.run->prompt);
    cluster.agent.Reject(start.token, base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
    cluster.agent.Send(core::Heartbeat{absl::Seconds(1 + i), {}});
    cluster.ReportFree();
  }
  EXPECT_EQ(started, "ababababaa");
}

TEST(DispatchTest, TransientErrorIsRetriedAndCounts) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kInternal, absl::StatusCode::kUnknown,
        absl::StatusCode::kDataLoss, absl::StatusCode::kAborted,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kCancelled,
        absl::StatusCode::kAlreadyExists}) {
    TestCluster cluster;
    const std::string id = cluster.client.Submit("task");
    cluster.agent.Reject(cluster.agent.NextMessage<StartRun>().token,
                         absl::Status(code, "not now"));
    const v1::Task task = cluster.client.WaitFor(id, v1::Task::STATE_PENDING);
    EXPECT_EQ(task.attempts(), 1u) << code;
    EXPECT_TRUE(task.has_not_before()) << code;
    EXPECT_THAT(task.last_error(), testing::HasSubstr("not now"));
  }
}

TEST(DispatchTest, LastAgentFailureIsMaxAttempts) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  for (uint32_t attempt = 1; attempt < 3; ++attempt) {
    cluster.agent.Reject(cluster.agent.NextMessage<StartRun>().token,
                         absl::UnavailableError("down"));
    EXPECT_EQ(cluster.client.WaitFor(id, v1::Task::STATE_PENDING).attempts(), attempt);
    cluster.client.Kick();
  }
  cluster.agent.Reject(cluster.agent.NextMessage<StartRun>().token, absl::UnavailableError("down"));
  const v1::Task task = cluster.client.WaitForEnd(id);
  EXPECT_EQ(task.reason(), v1::Task::REASON_MAX_ATTEMPTS);
  EXPECT_EQ(task.attempts(), 3u);
}

TEST(DispatchTest, TaskErrorEndsTheTask) {
  TestCluster cluster;
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
        absl::StatusCode::kOutOfRange, absl::StatusCode::kFailedPrecondition}) {
    const std::string id = cluster.client.Submit("task");
    cluster.agent.Reject(cluster.agent.NextMessage<StartRun>().token,
                         absl::Status(code, "bad task"));
    const v1::Task task = cluster.client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_FAILED) << code;
    EXPECT_EQ(task.reason(), v1::Task::REASON_AGENT_REJECTED) << code;
    cluster.ReportFree();
  }
}

TEST(DispatchTest, AgentErrorCordonsTheAgent) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnauthenticated, absl::StatusCode::kPermissionDenied,
        absl::StatusCode::kUnimplemented}) {
    TestCluster cluster;
    const std::string id = cluster.client.Submit("task");
    cluster.agent.Reject(cluster.agent.NextMessage<StartRun>().token,
                         absl::Status(code, "who are you"));
    const v1::Task task = cluster.client.WaitFor(id, v1::Task::STATE_PENDING);
    EXPECT_EQ(task.attempts(), 0u) << code;
    EXPECT_EQ(cluster.ListedAgent().state(), v1::Agent::STATE_CORDONED) << code;
  }
}

TEST(DispatchTest, UnwrittenStartIsRetriedAndCounts) {
  TestCluster cluster({}, 8);
  cluster.network.Set(test::TcpProxy::Direction::kToServer, test::TcpProxy::Flow::kHeld);
  // The first start is larger than what gRPC sends without reading; the starts behind it are still
  // in the director.
  std::vector<std::string> ids;
  for (uint32_t i = 0; i < cluster.slots; ++i) {
    ids.push_back(cluster.client.Submit(std::string(1 << 20, 'x')));
  }
  cluster.agent.EndSession();
  const v1::Task unwritten = cluster.client.WaitFor(ids.back(), v1::Task::STATE_PENDING);
  EXPECT_EQ(unwritten.attempts(), 1u);
  EXPECT_TRUE(unwritten.has_not_before());
  EXPECT_THAT(unwritten.last_error(), testing::StartsWith("agent-1 cannot be reached at "));
  const v1::Task written = cluster.client.Get(ids.front());
  EXPECT_EQ(written.state(), v1::Task::STATE_DISPATCHING) << "it may have arrived";
  EXPECT_EQ(written.attempts(), 0u);
}

TEST(DispatchTest, DisconnectedAgentGetsNoTasks) {
  TestCluster cluster;
  cluster.network.Accept(false);
  cluster.network.Cut();
  while (cluster.ListedAgent().state() == v1::Agent::STATE_IDLE) {
  }
  const std::string id = cluster.client.Submit("task");
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_PENDING);
  cluster.network.Accept(true);
  cluster.Open();
  cluster.Run(id);
  EXPECT_EQ(cluster.client.Get(id).attempts(), 0u);
}

TEST(DispatchTest, UnansweredStartIsResentToTheSameAgent) {
  TestCluster cluster({"--queue.dispatch_timeout=1s"});
  const std::string id = cluster.client.Submit("task");
  const FenceToken token = cluster.agent.NextMessage<StartRun>().token;
  EXPECT_EQ(cluster.agent.NextMessage<StartRun>().token, token) << "the same dispatch";
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  EXPECT_EQ(cluster.client.Get(id).attempts(), 0u);
  cluster.agent.Accept(token);
  cluster.client.WaitFor(id, v1::Task::STATE_WORKING);
}

TEST(DispatchTest, StartIsResentAfterABrokenSession) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  const FenceToken token = cluster.agent.NextMessage<StartRun>().token;
  cluster.agent.EndSession();
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  cluster.Open();
  EXPECT_EQ(cluster.agent.NextMessage<StartRun>().token, token) << "the same dispatch";
  cluster.agent.Accept(token);
  cluster.client.WaitFor(id, v1::Task::STATE_WORKING);
}

// Waits for the shortest lease that the settings allow.
TEST(DispatchTest, ExpiredLeaseReturnsStartsAndLosesRuns) {
  TestCluster cluster({"--lease.heartbeat=3s", "--lease.self_fence=1s", "--lease.kill_grace=0s",
                       "--lease.redispatch_after=6s"},
                      3);
  const std::string started = cluster.client.Submit("task");
  cluster.agent.NextMessage<StartRun>();
  const std::string lost = cluster.client.Submit("task");
  cluster.Run(lost);
  const std::string requeued = cluster.client.Submit(RequeueOnLoss());
  cluster.Run(requeued);
  const std::string later = cluster.client.Submit("task");
  const v1::Task ended = cluster.client.WaitForEnd(lost);
  EXPECT_EQ(ended.reason(), v1::Task::REASON_AGENT_LOST);
  EXPECT_EQ(ended.attempts(), 1u);
  uint64_t position = 0;
  for (const std::string& id : {started, requeued, later}) {
    const v1::Task task = cluster.client.WaitFor(id, v1::Task::STATE_PENDING);
    EXPECT_EQ(task.position(), ++position) << "tasks keep their order";
    EXPECT_EQ(task.attempts(), id == later ? 0u : 1u);
  }
}

TEST(DispatchTest, StartUnknownToARestartedAgentIsRetriedAndCounts) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  const FenceToken token = cluster.agent.NextMessage<StartRun>().token;
  cluster.agent.EndSession();
  cluster.Open("2");
  const FenceToken next = cluster.agent.NextMessage<StartRun>().token;
  EXPECT_EQ(next.dispatch.value(), token.dispatch.value() + 1);
  EXPECT_EQ(cluster.client.Get(id).attempts(), 1u);
}

TEST(DispatchTest, MissingRunIsLostOrRequeued) {
  TestCluster cluster({}, 3);
  const std::string lost = cluster.client.Submit("task");
  cluster.Run(lost);
  const std::string requeued = cluster.client.Submit(RequeueOnLoss());
  const FenceToken token = cluster.Run(requeued);
  const std::string reported = cluster.client.Submit("task");
  const FenceToken running = cluster.Run(reported);
  cluster.agent.EndSession();
  cluster.Open("1", {running});
  EXPECT_EQ(cluster.client.WaitForEnd(lost).reason(), v1::Task::REASON_AGENT_LOST);
  const FenceToken next = cluster.agent.NextMessage<StartRun>().token;
  EXPECT_EQ(next.queue_id, token.queue_id);
  EXPECT_EQ(next.dispatch.value(), token.dispatch.value() + 1);
  EXPECT_EQ(cluster.client.Get(requeued).attempts(), 1u);
  EXPECT_EQ(cluster.client.Get(reported).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, TaskThatKilledTwoAgentsIsPoison) {
  test::ScriptedAgent agents[2];
  test::RunningServer director(
      test::kDirector,
      {absl::StrCat("--data_dir=", test::NewFolder().string()),
       absl::StrCat("--fleet.agents=", agents[0].address(), ",", agents[1].address())});
  test::TaskClient client(director);
  const auto open = [&agents](int i) {
    agents[i].WaitForSession();
    agents[i].SendOpened(absl::StrCat("agent-", i));
  };
  open(0);
  const std::string id = client.Submit(RequeueOnLoss());
  open(1);
  for (int i = 0; i < 2; ++i) {
    agents[i].Accept(agents[i].NextMessage<StartRun>().token);
    client.WaitFor(id, v1::Task::STATE_WORKING);
    agents[i].EndSession();
    open(i);
  }
  EXPECT_EQ(client.WaitForEnd(id).reason(), v1::Task::REASON_POISON);
}

TEST(DispatchTest, TaskPastItsDeadlineIsExpired) {
  TestCluster cluster;
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.mutable_deadline_at()->set_seconds(1);
  const v1::Task task = cluster.client.WaitForEnd(cluster.client.Submit(request));
  EXPECT_EQ(task.reason(), v1::Task::REASON_EXPIRED);
  EXPECT_EQ(task.dispatch(), 0u) << "although an agent is idle";
}

TEST(DispatchTest, EvictedTaskFails) {
  TestCluster cluster({"--queue.max_size=1", "--queue.policy=drop-oldest"});
  const std::string running = cluster.client.Submit("running");
  cluster.Run(running);
  const std::string oldest = cluster.client.Submit("oldest");
  const std::string newest = cluster.client.Submit("newest");
  EXPECT_EQ(cluster.client.Get(oldest).reason(), v1::Task::REASON_EVICTED);
  EXPECT_EQ(cluster.client.Get(newest).position(), 1u);
  EXPECT_EQ(cluster.client.Get(running).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, FailedRunFollowsItsRetryRules) {
  TestCluster cluster;
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.add_retry_on("exit:7");
  for (const auto& [exit_code, state] : std::vector<std::pair<int, v1::Task::State>>{
           {1, v1::Task::STATE_FAILED}, {7, v1::Task::STATE_PENDING}}) {
    const std::string id = cluster.client.Submit(request);
    const FenceToken token = cluster.Run(id);
    cluster.agent.Finish(token, {.end = core::RunResult::End::kFailed, .exit_code = exit_code});
    EXPECT_EQ(cluster.agent.NextMessage<core::ResultAck>().token, token);
    EXPECT_EQ(cluster.client.Get(id).state(), state) << exit_code;
    EXPECT_EQ(cluster.client.Get(id).attempts(), 1u);
    cluster.ReportFree();
  }
}

TEST(DispatchTest, CancelledRunEndsWithTheAgentsReport) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  const FenceToken token = cluster.Run(id);
  EXPECT_EQ(cluster.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(cluster.agent.NextMessage<core::CancelRun>().token, token);
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_WORKING);
  cluster.agent.Finish(token, {.end = core::RunResult::End::kCancelled, .signal = "SIGTERM"});
  EXPECT_EQ(cluster.client.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
}

TEST(DispatchTest, CancelledStartEndsWithTheAgentsRejection) {
  TestCluster cluster({"--queue.dispatch_timeout=1s"});
  const std::string id = cluster.client.Submit("task");
  const FenceToken token = cluster.agent.NextMessage<StartRun>().token;
  EXPECT_EQ(cluster.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cluster.agent.NextMessage<core::CancelRun>().token, token) << "and no other start";
  }
  cluster.agent.Reject(token, absl::UnavailableError("not now"));
  EXPECT_EQ(cluster.client.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
}

TEST(DispatchTest, ResultAfterACancelIsIgnored) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  const FenceToken token = cluster.Run(id);
  ASSERT_EQ(cluster.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  cluster.agent.Finish(token, {.exit_code = 0, .result = "42"});
  const v1::Task task = cluster.client.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_CANCELLED);
  EXPECT_EQ(task.result(), "");
}

TEST(DispatchTest, StaleResultIsFencedOff) {
  TestCluster cluster;
  const std::string id = cluster.client.Submit("task");
  FenceToken stale = cluster.Run(id);
  stale.director_epoch += 1;
  cluster.agent.Finish(stale, {.exit_code = 0});
  EXPECT_EQ(cluster.agent.NextMessage<core::FenceOff>().token, stale);
  EXPECT_EQ(cluster.client.Get(id).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, WaitingCallerIsAdmittedWhenATaskStarts) {
  TestCluster cluster({"--queue.max_size=1", "--queue.policy=block"});
  const FenceToken token = cluster.Run(cluster.client.Submit("first"));
  cluster.client.Submit("second");
  auto third = std::async(std::launch::async, [&] { return cluster.client.Submit("third"); });
  while (cluster.client.Status().waiting() == 0) {
  }
  cluster.agent.Finish(token);
  EXPECT_EQ(cluster.client.Get(third.get()).position(), 1u);
}

}  // namespace
}  // namespace callboard
