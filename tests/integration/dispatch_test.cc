// How dispatches begin and end: a real director, and an agent that says what a test tells it to.
//
// What happens to a task, and the test that shows what follows:
//   submit accepted      SubmitGoesToTheBackAndStartsWhenItsTurnComes
//   a slot is free       SubmitGoesToTheBackAndStartsWhenItsTurnComes
//   accepted, success    AcceptedRunThatSucceedsIsCompletedAndAcknowledged
//   busy                 BusyPutsTheTaskAtTheBackAndCountsNoAttempt
//   busy, 5th time       FromTheFifthBusyAnswerOnATaskKeepsItsPlace
//   5xx                  AnswerThatMayPassIsTriedLaterAndCounts
//   never written        StartThatWasNeverWrittenIsTriedLaterAndCounts
//   4xx                  AnswerThatBlamesTheTaskEndsIt
//   agent at fault       AnswerThatBlamesTheAgentCordonsIt
//   no answer            StartWithoutAnAnswerIsSentAgainToTheSameAgent
//   Session broke        StartWhoseSessionBrokeIsSentAgainToTheSameAgent
//   lease ended          LeaseThatEndsReturnsStartsAndLosesRuns
//   new instance         StartThatANewLifeOfTheAgentNeverSawIsTriedAgainAndCounts
//   exit code            RunThatFailsIsFailedOrTriedAgainAsItsRulesSay
//   not in inventory     RunThatTheAgentNoLongerHasIsLostOrRequeued
//   two agents down      TaskThatTookDownTwoAgentsIsPoison
//   deadline_at          TaskThatDidNotStartInTimeIsExpired
//   evicted              EvictedTaskIsFailed
//   attempts = max       LastAttemptThatFailsForTheAgentsSakeIsMaxAttempts
//   cancel               CancelReachesTheAgentAndItsWordEndsTheTask
//   cancel of a start    CancelOfAStartEndsWithTheAgentsRefusal
//   cancel, then result  ResultAfterACancelDoesNotCount
//   stale token          ResultOfADispatchThatDoesNotCountIsFencedOff
//
// Signals, timeouts and restarts of real agents and directors are in task_test.cc. The director's
// own guard against runs that last too long needs more than a minute: the simulation has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/running_server.h"
#include "libs/testing/scripted_agent.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/integration/director_fixture.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using core::FenceToken;
using core::StartRun;

// A director that knows one agent, which says nothing by itself, and the network between them.
struct Stage {
  explicit Stage(std::vector<std::string> flags = {}, uint32_t slots = 1)
      : slots(slots), director(test::kDirector, [&] {
          flags.push_back(absl::StrCat("--data_dir=", test::NewFolder().string()));
          flags.push_back(absl::StrCat("--fleet.agents=", network.address()));
          return flags;
        }()) {
    Open();
  }

  // The next Session; the agent runs what `running` names, and nothing else.
  void Open(const std::string& instance_id = "1", std::vector<FenceToken> running = {}) {
    agent.WaitForSession();
    agent.Say(core::AgentOpened{.name = "agent-1",
                                .instance_id = instance_id,
                                .lanes = {{"default", {.slots = slots}}},
                                .agent_time = absl::Seconds(1),
                                .running = std::move(running)});
  }
  void ReportFree() { agent.Say(core::AgentItem(core::LoadReported{{{"default", {slots, 0}}}})); }
  // Starts a task that the agent accepts.
  FenceToken Run(const std::string& id) {
    const FenceToken token = agent.NextItem<StartRun>().token;
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

v1::SubmitTaskRequest Requeued() {
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.set_on_agent_lost(v1::ON_AGENT_LOST_REQUEUE);
  return request;
}

TEST(DispatchTest, SubmitGoesToTheBackAndStartsWhenItsTurnComes) {
  Stage stage;
  const std::string first = stage.client.Submit("first");
  const std::string second = stage.client.Submit("second");
  const FenceToken token = stage.Run(first);
  EXPECT_EQ(stage.client.Get(second).position(), 1u);
  EXPECT_EQ(stage.client.Get(stage.client.Submit("third")).position(), 2u);
  stage.agent.Finish(token);
  EXPECT_EQ(stage.agent.NextItem<core::ResultAcknowledged>().token, token);
  EXPECT_EQ(stage.agent.NextItem<StartRun>().spec->prompt, "second");
}

TEST(DispatchTest, TasksThatMayStartNowAreListedApartFromThoseThatMayNot) {
  Stage stage;
  const std::string running = stage.client.Submit("running");
  stage.Run(running);
  const std::string ready = stage.client.Submit("ready");
  v1::SubmitTaskRequest later;
  later.set_prompt("later");
  later.mutable_earliest_start_at()->set_seconds(stage.client.Get(ready).created_at().seconds() +
                                                 3600);
  const std::string delayed = stage.client.Submit(later);
  const auto list = [&stage](bool is_ready) {
    grpc::ClientContext context;
    v1::ListTasksRequest request;
    request.set_ready(is_ready);
    request.add_states(v1::Task::STATE_PENDING);
    v1::ListTasksResponse response;
    EXPECT_TRUE(stage.client.stub().ListTasks(&context, request, &response).ok());
    std::vector<std::string> ids;
    for (const v1::Task& task : response.tasks()) ids.push_back(task.queue_id());
    return ids;
  };
  EXPECT_THAT(list(true), testing::ElementsAre(ready));
  EXPECT_THAT(list(false), testing::ElementsAre(delayed));
}

TEST(DispatchTest, AcceptedRunThatSucceedsIsCompletedAndAcknowledged) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  const StartRun start = stage.agent.NextItem<StartRun>();
  EXPECT_EQ(start.spec->prompt, "task");
  EXPECT_EQ(core::ToString(start.token.queue_id), id);
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  stage.agent.Accept(start.token);
  stage.client.WaitFor(id, v1::Task::STATE_WORKING);
  stage.agent.Finish(start.token, {.exit_code = 0, .result = "42"});
  EXPECT_EQ(stage.client.WaitFor(id, v1::Task::STATE_COMPLETED).result(), "42");
  EXPECT_EQ(stage.agent.NextItem<core::ResultAcknowledged>().token, start.token);
}

TEST(DispatchTest, BusyPutsTheTaskAtTheBackAndCountsNoAttempt) {
  Stage stage;
  const std::string first = stage.client.Submit("first");
  const std::string second = stage.client.Submit("second");
  const StartRun start = stage.agent.NextItem<StartRun>();
  EXPECT_EQ(start.spec->prompt, "first");
  stage.agent.Refuse(start.token, base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
  const v1::Task bounced = stage.client.WaitFor(first, v1::Task::STATE_PENDING);
  EXPECT_EQ(bounced.position(), 2u);
  EXPECT_EQ(bounced.busy_rejections(), 1u);
  EXPECT_EQ(bounced.attempts(), 0u);
  EXPECT_EQ(stage.client.Get(second).position(), 1u);
  // Full until it says otherwise.
  stage.ReportFree();
  EXPECT_EQ(stage.agent.NextItem<StartRun>().spec->prompt, "second");
}

TEST(DispatchTest, FromTheFifthBusyAnswerOnATaskKeepsItsPlace) {
  Stage stage;
  stage.client.Submit("a");
  stage.client.Submit("b");
  std::string started;
  for (int i = 1; i <= 10; ++i) {
    const StartRun start = stage.agent.NextItem<StartRun>();
    absl::StrAppend(&started, start.spec->prompt);
    stage.agent.Refuse(start.token, base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
    stage.agent.Say(core::AgentItem(core::Heartbeat{absl::Seconds(1 + i), {}}));
    stage.ReportFree();
  }
  EXPECT_EQ(started, "ababababaa");
}

TEST(DispatchTest, AnswerThatMayPassIsTriedLaterAndCounts) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kInternal, absl::StatusCode::kUnknown,
        absl::StatusCode::kDataLoss, absl::StatusCode::kAborted,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kCancelled,
        absl::StatusCode::kAlreadyExists}) {
    Stage stage;
    const std::string id = stage.client.Submit("task");
    stage.agent.Refuse(stage.agent.NextItem<StartRun>().token, absl::Status(code, "not now"));
    const v1::Task task = stage.client.WaitFor(id, v1::Task::STATE_PENDING);
    EXPECT_EQ(task.attempts(), 1u) << code;
    EXPECT_TRUE(task.has_not_before()) << code;
    EXPECT_THAT(task.last_error(), testing::HasSubstr("not now"));
  }
}

TEST(DispatchTest, LastAttemptThatFailsForTheAgentsSakeIsMaxAttempts) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  for (uint32_t attempt = 1; attempt < 3; ++attempt) {
    stage.agent.Refuse(stage.agent.NextItem<StartRun>().token, absl::UnavailableError("down"));
    EXPECT_EQ(stage.client.WaitFor(id, v1::Task::STATE_PENDING).attempts(), attempt);
    stage.client.Kick();
  }
  stage.agent.Refuse(stage.agent.NextItem<StartRun>().token, absl::UnavailableError("down"));
  const v1::Task task = stage.client.WaitForEnd(id);
  EXPECT_EQ(task.reason(), v1::Task::REASON_MAX_ATTEMPTS);
  EXPECT_EQ(task.attempts(), 3u);
}

TEST(DispatchTest, AnswerThatBlamesTheTaskEndsIt) {
  Stage stage;
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
        absl::StatusCode::kOutOfRange, absl::StatusCode::kFailedPrecondition}) {
    const std::string id = stage.client.Submit("task");
    stage.agent.Refuse(stage.agent.NextItem<StartRun>().token, absl::Status(code, "bad task"));
    const v1::Task task = stage.client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_FAILED) << code;
    EXPECT_EQ(task.reason(), v1::Task::REASON_AGENT_REJECTED) << code;
    stage.ReportFree();
  }
}

TEST(DispatchTest, AnswerThatBlamesTheAgentCordonsIt) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnauthenticated, absl::StatusCode::kPermissionDenied,
        absl::StatusCode::kUnimplemented}) {
    Stage stage;
    const std::string id = stage.client.Submit("task");
    stage.agent.Refuse(stage.agent.NextItem<StartRun>().token, absl::Status(code, "who are you"));
    const v1::Task task = stage.client.WaitFor(id, v1::Task::STATE_PENDING);
    EXPECT_EQ(task.attempts(), 0u) << code;
    EXPECT_EQ(stage.ListedAgent().state(), v1::Agent::STATE_CORDONED) << code;
  }
}

TEST(DispatchTest, StartThatWasNeverWrittenIsTriedLaterAndCounts) {
  Stage stage({}, 8);
  stage.network.Set(test::TcpProxy::Direction::kToServer, test::TcpProxy::Flow::kHeld);
  // The first is more than gRPC says without being heard; those behind it are still the director's.
  std::vector<std::string> ids;
  for (uint32_t i = 0; i < stage.slots; ++i) {
    ids.push_back(stage.client.Submit(std::string(1 << 20, 'x')));
  }
  stage.agent.HangUp();
  const v1::Task unwritten = stage.client.WaitFor(ids.back(), v1::Task::STATE_PENDING);
  EXPECT_EQ(unwritten.attempts(), 1u);
  EXPECT_TRUE(unwritten.has_not_before());
  EXPECT_THAT(unwritten.last_error(), testing::StartsWith("agent-1 cannot be reached at "));
  const v1::Task written = stage.client.Get(ids.front());
  EXPECT_EQ(written.state(), v1::Task::STATE_DISPATCHING) << "it may have been heard";
  EXPECT_EQ(written.attempts(), 0u);
}

TEST(DispatchTest, AgentThatIsAwayIsGivenNothingUntilItIsBack) {
  Stage stage;
  stage.network.Accept(false);
  stage.network.Cut();
  while (stage.ListedAgent().state() == v1::Agent::STATE_IDLE) {
  }
  const std::string id = stage.client.Submit("task");
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_PENDING);
  stage.network.Accept(true);
  stage.Open();
  stage.Run(id);
  EXPECT_EQ(stage.client.Get(id).attempts(), 0u);
}

TEST(DispatchTest, StartWithoutAnAnswerIsSentAgainToTheSameAgent) {
  Stage stage({"--queue.dispatch_timeout=1s"});
  const std::string id = stage.client.Submit("task");
  const FenceToken token = stage.agent.NextItem<StartRun>().token;
  EXPECT_EQ(stage.agent.NextItem<StartRun>().token, token) << "the same dispatch";
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  EXPECT_EQ(stage.client.Get(id).attempts(), 0u);
  stage.agent.Accept(token);
  stage.client.WaitFor(id, v1::Task::STATE_WORKING);
}

TEST(DispatchTest, StartWhoseSessionBrokeIsSentAgainToTheSameAgent) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  const FenceToken token = stage.agent.NextItem<StartRun>().token;
  stage.agent.HangUp();
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  stage.Open();
  EXPECT_EQ(stage.agent.NextItem<StartRun>().token, token) << "the same dispatch";
  stage.agent.Accept(token);
  stage.client.WaitFor(id, v1::Task::STATE_WORKING);
}

// Waits for the shortest lease that the settings allow.
TEST(DispatchTest, LeaseThatEndsReturnsStartsAndLosesRuns) {
  Stage stage({"--lease.heartbeat=3s", "--lease.self_fence=1s", "--lease.kill_grace=0s",
               "--lease.redispatch_after=6s"},
              3);
  const std::string started = stage.client.Submit("task");
  stage.agent.NextItem<StartRun>();
  const std::string lost = stage.client.Submit("task");
  stage.Run(lost);
  const std::string requeued = stage.client.Submit(Requeued());
  stage.Run(requeued);
  const std::string later = stage.client.Submit("task");
  const v1::Task ended = stage.client.WaitForEnd(lost);
  EXPECT_EQ(ended.reason(), v1::Task::REASON_AGENT_LOST);
  EXPECT_EQ(ended.attempts(), 1u);
  uint64_t position = 0;
  for (const std::string& id : {started, requeued, later}) {
    const v1::Task task = stage.client.WaitFor(id, v1::Task::STATE_PENDING);
    EXPECT_EQ(task.position(), ++position) << "each in its place";
    EXPECT_EQ(task.attempts(), id == later ? 0u : 1u);
  }
}

TEST(DispatchTest, StartThatANewLifeOfTheAgentNeverSawIsTriedAgainAndCounts) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  const FenceToken token = stage.agent.NextItem<StartRun>().token;
  stage.agent.HangUp();
  stage.Open("2");
  const FenceToken next = stage.agent.NextItem<StartRun>().token;
  EXPECT_EQ(next.dispatch.value(), token.dispatch.value() + 1);
  EXPECT_EQ(stage.client.Get(id).attempts(), 1u);
}

TEST(DispatchTest, RunThatTheAgentNoLongerHasIsLostOrRequeued) {
  Stage stage({}, 3);
  const std::string lost = stage.client.Submit("task");
  stage.Run(lost);
  const std::string requeued = stage.client.Submit(Requeued());
  const FenceToken token = stage.Run(requeued);
  const std::string kept = stage.client.Submit("task");
  const FenceToken running = stage.Run(kept);
  stage.agent.HangUp();
  stage.Open("1", {running});
  EXPECT_EQ(stage.client.WaitForEnd(lost).reason(), v1::Task::REASON_AGENT_LOST);
  const FenceToken next = stage.agent.NextItem<StartRun>().token;
  EXPECT_EQ(next.queue_id, token.queue_id);
  EXPECT_EQ(next.dispatch.value(), token.dispatch.value() + 1);
  EXPECT_EQ(stage.client.Get(requeued).attempts(), 1u);
  EXPECT_EQ(stage.client.Get(kept).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, TaskThatTookDownTwoAgentsIsPoison) {
  test::ScriptedAgent agents[2];
  test::RunningServer director(
      test::kDirector,
      {absl::StrCat("--data_dir=", test::NewFolder().string()),
       absl::StrCat("--fleet.agents=", agents[0].address(), ",", agents[1].address())});
  test::TaskClient client(director);
  const auto open = [&agents](int i) {
    agents[i].WaitForSession();
    agents[i].SayOpened(absl::StrCat("agent-", i));
  };
  open(0);
  const std::string id = client.Submit(Requeued());
  open(1);
  for (int i = 0; i < 2; ++i) {
    agents[i].Accept(agents[i].NextItem<StartRun>().token);
    client.WaitFor(id, v1::Task::STATE_WORKING);
    agents[i].HangUp();
    open(i);
  }
  EXPECT_EQ(client.WaitForEnd(id).reason(), v1::Task::REASON_POISON);
}

TEST(DispatchTest, TaskThatDidNotStartInTimeIsExpired) {
  Stage stage;
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.mutable_deadline_at()->set_seconds(1);
  const v1::Task task = stage.client.WaitForEnd(stage.client.Submit(request));
  EXPECT_EQ(task.reason(), v1::Task::REASON_EXPIRED);
  EXPECT_EQ(task.dispatch(), 0u) << "although an agent is idle";
}

TEST(DispatchTest, EvictedTaskIsFailed) {
  Stage stage({"--queue.max_size=1", "--queue.policy=drop-oldest"});
  const std::string running = stage.client.Submit("running");
  stage.Run(running);
  const std::string oldest = stage.client.Submit("oldest");
  const std::string newest = stage.client.Submit("newest");
  EXPECT_EQ(stage.client.Get(oldest).reason(), v1::Task::REASON_EVICTED);
  EXPECT_EQ(stage.client.Get(newest).position(), 1u);
  EXPECT_EQ(stage.client.Get(running).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, RunThatFailsIsFailedOrTriedAgainAsItsRulesSay) {
  Stage stage;
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.add_retry_on("exit:7");
  for (const auto& [exit_code, state] : std::vector<std::pair<int, v1::Task::State>>{
           {1, v1::Task::STATE_FAILED}, {7, v1::Task::STATE_PENDING}}) {
    const std::string id = stage.client.Submit(request);
    const FenceToken token = stage.Run(id);
    stage.agent.Finish(token, {.end = core::RunResult::End::kFailed, .exit_code = exit_code});
    EXPECT_EQ(stage.agent.NextItem<core::ResultAcknowledged>().token, token);
    EXPECT_EQ(stage.client.Get(id).state(), state) << exit_code;
    EXPECT_EQ(stage.client.Get(id).attempts(), 1u);
    stage.ReportFree();
  }
}

TEST(DispatchTest, CancelReachesTheAgentAndItsWordEndsTheTask) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  const FenceToken token = stage.Run(id);
  EXPECT_EQ(stage.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(stage.agent.NextItem<core::CancelRun>().token, token);
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_WORKING);
  stage.agent.Finish(token, {.end = core::RunResult::End::kCancelled, .signal = "SIGTERM"});
  EXPECT_EQ(stage.client.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
}

TEST(DispatchTest, CancelOfAStartEndsWithTheAgentsRefusal) {
  Stage stage({"--queue.dispatch_timeout=1s"});
  const std::string id = stage.client.Submit("task");
  const FenceToken token = stage.agent.NextItem<StartRun>().token;
  EXPECT_EQ(stage.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_DISPATCHING);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(stage.agent.NextItem<core::CancelRun>().token, token) << "and no other start";
  }
  stage.agent.Refuse(token, absl::UnavailableError("not now"));
  EXPECT_EQ(stage.client.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
}

TEST(DispatchTest, ResultAfterACancelDoesNotCount) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  const FenceToken token = stage.Run(id);
  ASSERT_EQ(stage.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  stage.agent.Finish(token, {.exit_code = 0, .result = "42"});
  const v1::Task task = stage.client.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_CANCELLED);
  EXPECT_EQ(task.result(), "");
}

TEST(DispatchTest, ResultOfADispatchThatDoesNotCountIsFencedOff) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  FenceToken stale = stage.Run(id);
  stale.director_epoch += 1;
  stage.agent.Finish(stale, {.exit_code = 0});
  EXPECT_EQ(stage.agent.NextItem<core::FencedOff>().token, stale);
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, WaitingCallerGetsInWhenATaskStarts) {
  Stage stage({"--queue.max_size=1", "--queue.policy=block"});
  const FenceToken token = stage.Run(stage.client.Submit("first"));
  stage.client.Submit("second");
  auto third = std::async(std::launch::async, [&] { return stage.client.Submit("third"); });
  while (stage.client.Status().waiting() == 0) {
  }
  stage.agent.Finish(token);
  EXPECT_EQ(stage.client.Get(third.get()).position(), 1u);
}

}  // namespace
}  // namespace callboard
