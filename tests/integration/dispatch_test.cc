// How dispatches end: a real director, and an agent that answers what a test tells it to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/running_server.h"
#include "libs/testing/scripted_agent.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using core::FenceToken;
using core::StartRun;

// A director that knows one agent, which has one slot and says nothing by itself.
struct Stage {
  Stage() { Open(); }

  void Open() {
    agent.WaitForSession();
    agent.SayOpened("agent-1");
  }
  void ReportFree() { agent.Say(core::AgentItem(core::LoadReported{{{"default", {.slots = 1}}}})); }
  v1::Agent ListedAgent() {
    grpc::ClientContext context;
    v1::ListAgentsResponse response;
    const auto fleet = v1::FleetService::NewStub(director.NewChannel());
    EXPECT_TRUE(fleet->ListAgents(&context, {}, &response).ok());
    return response.agents_size() == 1 ? response.agents(0) : v1::Agent();
  }

  test::ScriptedAgent agent;
  test::RunningServer director{"services/director/callboard-director",
                               {absl::StrCat("--data_dir=", test::NewFolder().string()),
                                absl::StrCat("--fleet.agents=", agent.address())}};
  test::TaskClient client{director};
};

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
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.set_max_attempts(1);
  const std::string id = stage.client.Submit(request);
  stage.agent.Refuse(stage.agent.NextItem<StartRun>().token, absl::UnavailableError("down"));
  EXPECT_EQ(stage.client.WaitForEnd(id).reason(), v1::Task::REASON_MAX_ATTEMPTS);
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

TEST(DispatchTest, RunThatFailsIsFailedOrTriedAgainAsItsRulesSay) {
  Stage stage;
  v1::SubmitTaskRequest request;
  request.set_prompt("task");
  request.add_retry_on("exit:7");
  for (const auto& [exit_code, state] : std::vector<std::pair<int, v1::Task::State>>{
           {1, v1::Task::STATE_FAILED}, {7, v1::Task::STATE_PENDING}}) {
    const std::string id = stage.client.Submit(request);
    const FenceToken token = stage.agent.NextItem<StartRun>().token;
    stage.agent.Accept(token);
    stage.client.WaitFor(id, v1::Task::STATE_WORKING);
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
  const FenceToken token = stage.agent.NextItem<StartRun>().token;
  stage.agent.Accept(token);
  stage.client.WaitFor(id, v1::Task::STATE_WORKING);
  EXPECT_EQ(stage.client.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(stage.agent.NextItem<core::CancelRun>().token, token);
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_WORKING);
  stage.agent.Finish(token, {.end = core::RunResult::End::kCancelled, .signal = "SIGTERM"});
  EXPECT_EQ(stage.client.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
}

TEST(DispatchTest, ResultOfADispatchThatDoesNotCountIsFencedOff) {
  Stage stage;
  const std::string id = stage.client.Submit("task");
  FenceToken token = stage.agent.NextItem<StartRun>().token;
  stage.agent.Accept(token);
  stage.client.WaitFor(id, v1::Task::STATE_WORKING);
  FenceToken stale = token;
  stale.director_epoch += 1;
  stage.agent.Finish(stale, {.exit_code = 0});
  EXPECT_EQ(stage.agent.NextItem<core::FencedOff>().token, stale);
  EXPECT_EQ(stage.client.Get(id).state(), v1::Task::STATE_WORKING);
}

TEST(DispatchTest, WaitingCallerGetsInWhenAPlaceIsFree) {
  test::ScriptedAgent agent;
  test::RunningServer director("services/director/callboard-director",
                               {absl::StrCat("--data_dir=", test::NewFolder().string()),
                                "--queue.max_size=1", "--queue.policy=block"});
  test::TaskClient client(director);
  const std::string first = client.Submit("first");
  // Waits until the first one leaves the line, which needs an agent.
  std::string second;
  std::thread caller([&] { second = client.Submit("second"); });
  while (true) {
    grpc::ClientContext context;
    v1::QueueStatus status;
    ASSERT_TRUE(client.stub().GetQueueStatus(&context, {}, &status).ok());
    if (status.waiting() == 1) break;
  }
  grpc::ClientContext context;
  v1::AnnounceAgentRequest announcement;
  v1::AnnounceAgentResponse answer;
  announcement.set_name("agent-1");
  announcement.set_address(agent.address());
  announcement.set_instance_id("agent-1/1");
  ASSERT_TRUE(v1::FleetService::NewStub(director.NewChannel())
                  ->AnnounceAgent(&context, announcement, &answer)
                  .ok());
  agent.WaitForSession();
  agent.SayOpened("agent-1");
  EXPECT_EQ(agent.NextItem<StartRun>().spec->prompt, "first");
  caller.join();
  EXPECT_EQ(client.Get(second).position(), 1u);
}

}  // namespace
}  // namespace callboard
