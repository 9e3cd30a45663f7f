// Cancels in every state of a task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::LifecycleState;
using core::RunResult;
using test::EngineFixture;
using test::HasReason;
using test::StatusIs;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kCancelled = CancelResult::kCancelled;
constexpr auto kRequested = CancelResult::kRequested;
constexpr auto kAlreadyEnded = CancelResult::kAlreadyEnded;

// A director with a task in flight on agent `a`; it runs when `working`. A cancel was requested.
class CancelledInFlight : public EngineFixture {
 public:
  explicit CancelledInFlight(bool working, core::OnAgentLost on_lost = core::OnAgentLost::kFail) {
    Connect("a");
    core::Submission submission = Prompt();
    submission.spec.terms.on_agent_lost = on_lost;
    submission.spec.terms.retry_on = {*core::ParseRetryRule("exit:*"),
                                      *core::ParseRetryRule("timeout")};
    submission.spec.terms.timeout = absl::Seconds(10);
    task = Add(submission);
    if (working) AcceptStart(task);
    TakeSent<core::StartRun>();
    EXPECT_EQ(Cancel(task), kRequested);
  }

  core::QueueId task;
};

// ---- Results of a cancel ----

TEST(EngineCancelTest, UnknownTaskIsNotFound) {
  EngineFixture director;
  EXPECT_THAT(director.engine().Cancel(core::QueueId(), "me", "", director.now()),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(director.engine().Cancel(core::QueueId(), "me", "", director.now()),
              HasReason("TASK_NOT_FOUND"));
}

TEST(EngineCancelTest, PendingTaskIsCancelledImmediately) {
  EngineFixture director;
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.Cancel(task), kCancelled);
  EXPECT_EQ(director.State(task), LifecycleState::kCancelled);
  EXPECT_THAT(director.PendingTasks(), IsEmpty());
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kCancelled);
}

TEST(EngineCancelTest, TaskInBackoffIsCancelledImmediately) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::UnavailableError(""));
  EXPECT_EQ(director.Cancel(task), kCancelled);
  director.AdvanceWithHeartbeats(absl::Minutes(1));
  EXPECT_EQ(director.State(task), LifecycleState::kCancelled);
}

TEST(EngineCancelTest, CancelledTaskFreesItsPlaceForAWaiter) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.Cancel(task);
  EXPECT_NE(director.DecisionFor(waiter), nullptr);
}

TEST(EngineCancelTest, WaiterThatLeavesIsRemoved) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.CancelWait(waiter);
  director.Cancel(task);
  EXPECT_EQ(director.DecisionFor(waiter), nullptr);
  EXPECT_THAT(director.PendingTasks(), IsEmpty());
}

TEST(EngineCancelTest, CancelDoesNotChangeAnEndedTask) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.FinishRun(task);
  const size_t records = director.records_written();
  EXPECT_EQ(director.Cancel(task), kAlreadyEnded) << "a result before the request wins";
  EXPECT_EQ(director.State(task), LifecycleState::kCompleted);
  EXPECT_EQ(director.records_written(), records);
}

// ---- In flight ----

TEST(EngineCancelTest, CancelOfATaskInFlightIsSentToItsAgent) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    EXPECT_EQ(director.State(director.task),
              working ? LifecycleState::kWorking : LifecycleState::kDispatching);
    EXPECT_EQ(director.Task(director.task).cancel_requested_at, director.now().wall);
    const std::vector<core::CancelRun> cancels = director.TakeSent<core::CancelRun>();
    ASSERT_THAT(cancels, SizeIs(1));
    EXPECT_EQ(cancels[0].token, director.Token(director.task));
  }
}

TEST(EngineCancelTest, RepeatedCancelWritesNothing) {
  CancelledInFlight director(/*working=*/true);
  const size_t records = director.records_written();
  director.Advance(absl::Seconds(1));
  EXPECT_EQ(director.Cancel(director.task), kRequested);
  EXPECT_EQ(director.records_written(), records);
}

TEST(EngineCancelTest, CancelIsRepeatedUntilTheAgentConfirms) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    const core::FenceToken token = director.Token(director.task);
    director.TakeSent<core::CancelRun>();
    for (int copy = 1; copy <= 2; ++copy) {
      director.Advance(absl::Seconds(30));
      if (working) director.SendHeartbeat("a", {token});
      EXPECT_THAT(director.TakeSent<core::CancelRun>(), SizeIs(1)) << working << copy;
    }
  }
}

TEST(EngineCancelTest, StartIsNotSentAgainOnceCancelIsRequested) {
  CancelledInFlight director(/*working=*/false);
  director.Advance(absl::Seconds(70));
  EXPECT_THAT(director.TakeSent<core::StartRun>(), IsEmpty());
  director.BreakSession("a");
  director.Connect("a");
  EXPECT_THAT(director.TakeSent<core::StartRun>(), IsEmpty());
}

TEST(EngineCancelTest, AgentThatAcceptsAfterTheCancelGetsItAgain) {
  CancelledInFlight director(/*working=*/false);
  director.TakeSent<core::CancelRun>();
  director.AcceptStart(director.task);
  EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
  EXPECT_THAT(director.TakeSent<core::CancelRun>(), SizeIs(1));
}

TEST(EngineCancelTest, ReconnectedAgentThatStillRunsItGetsTheCancelAgain) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    director.BreakSession("a");
    director.TakeSent<core::CancelRun>();
    core::SessionOpened opened = EngineFixture::IdleAgent("a");
    opened.running = {director.Token(director.task)};
    director.Connect(opened);
    EXPECT_THAT(director.TakeSent<core::CancelRun>(), SizeIs(1));
    EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
  }
}

// ---- Every end of a cancelled run ----

TEST(EngineCancelTest, EveryEndOfTheRunLeadsToCancelled) {
  for (const bool working : {false, true}) {
    for (const RunResult& result : {RunResult{.end = RunResult::End::kCancelled},
                                    RunResult{.end = RunResult::End::kCompleted},
                                    RunResult{.end = RunResult::End::kFailed, .exit_code = 1},
                                    RunResult{.end = RunResult::End::kTimedOut}}) {
      CancelledInFlight director(working);
      const core::FenceToken token = director.Token(director.task);
      director.FinishRun(director.task, result);
      EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
      EXPECT_FALSE(director.Reason(director.task).has_value());
      const auto acknowledged = director.TakeSent<core::ResultAck>();
      ASSERT_THAT(acknowledged, SizeIs(1));
      EXPECT_EQ(acknowledged[0].token, token);
    }
  }
}

TEST(EngineCancelTest, ResultOfACancelledRunIsDropped) {
  CancelledInFlight director(/*working=*/true);
  director.FinishRun(director.task, {.exit_code = 0, .result = "too late"});
  EXPECT_EQ(director.Task(director.task).result, "");
}

TEST(EngineCancelTest, EveryRejectionOfTheStartLeadsToCancelled) {
  for (const absl::Status& answer :
       {base::WithReason(absl::AbortedError(""), "AGENT_BUSY"), absl::UnavailableError(""),
        absl::InvalidArgumentError(""), absl::UnauthenticatedError("")}) {
    CancelledInFlight director(/*working=*/false);
    director.AnswerStart(director.task, answer);
    EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled) << answer;
  }
}

TEST(EngineCancelTest, StartThatWasNeverWrittenLeadsToCancelled) {
  CancelledInFlight director(/*working=*/false);
  director.FailStartWrite(director.task);
  EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
}

TEST(EngineCancelTest, EndOfTheLeaseLeadsToCancelled) {
  for (const bool working : {false, true}) {
    for (const auto on_lost : {core::OnAgentLost::kFail, core::OnAgentLost::kRequeue}) {
      CancelledInFlight director(working, on_lost);
      director.BreakSession("a");
      director.Advance(absl::Seconds(74));
      EXPECT_FALSE(director.Task(director.task).finished_at.has_value());
      director.Advance(absl::Seconds(1));
      EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
    }
  }
}

TEST(EngineCancelTest, InventoryWithoutTheRunLeadsToCancelled) {
  for (const bool working : {false, true}) {
    for (const std::string instance : {"a/1", "a/2"}) {
      CancelledInFlight director(working);
      director.BreakSession("a");
      core::SessionOpened opened = EngineFixture::IdleAgent("a");
      opened.instance_id = instance;
      if (working) opened.lost = {director.Token(director.task)};
      director.Connect(opened);
      EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
    }
  }
}

TEST(EngineCancelTest, DirectorsOwnGuardLeadsToCancelled) {
  CancelledInFlight director(/*working=*/true);
  director.AdvanceWithHeartbeats(absl::Seconds(80));
  EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
}

TEST(EngineCancelTest, CancelRequestSurvivesARestart) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    const core::FenceToken token = director.Token(director.task);
    director.Restart();
    core::SessionOpened opened = EngineFixture::IdleAgent("a");
    opened.running = {token};
    director.Connect(opened);
    EXPECT_THAT(director.TakeSent<core::CancelRun>(), SizeIs(1));
    director.FinishRun(director.task);
    EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
  }
}

TEST(EngineCancelTest, CancelledTaskIsNeverRetried) {
  CancelledInFlight director(/*working=*/true, core::OnAgentLost::kRequeue);
  director.FinishRun(director.task, {.end = RunResult::End::kFailed, .exit_code = 1});
  director.AdvanceWithHeartbeats(absl::Minutes(10));
  EXPECT_EQ(director.State(director.task), LifecycleState::kCancelled);
  EXPECT_THAT(director.engine().fleet().agents().at("a").failed_tasks, IsEmpty());
}

}  // namespace
}  // namespace callboard::director
