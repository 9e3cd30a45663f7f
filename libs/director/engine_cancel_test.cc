// Cancels, in every phase of a task's life.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::RunResult;
using core::TaskState;
using test::EngineFixture;
using test::HasReason;
using test::StatusIs;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr auto kCancelled = CancelAnswer::kCancelled;
constexpr auto kRequested = CancelAnswer::kRequested;
constexpr auto kAlreadyEnded = CancelAnswer::kAlreadyEnded;

// A director with a task that agent `a` was given, and runs when `working`.
class CancelledInFlight : public EngineFixture {
 public:
  explicit CancelledInFlight(bool working, core::OnAgentLost on_lost = core::OnAgentLost::kFail) {
    Connect("a");
    core::Submission submission = Prompt();
    submission.spec.on_agent_lost = on_lost;
    submission.spec.retry_on = {*core::ParseRetryRule("exit:*"), *core::ParseRetryRule("timeout")};
    submission.spec.timeout = absl::Seconds(10);
    task = Add(submission);
    if (working) Accept(task);
    TakeSaid<core::StartRun>();
    EXPECT_EQ(Cancel(task), kRequested);
  }

  core::QueueId task;
};

// ---- Receipts ----

TEST(EngineCancelTest, UnknownTaskIsNotFound) {
  EngineFixture director;
  EXPECT_THAT(director.engine().Cancel(core::QueueId(), "me", "", director.now()),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(director.engine().Cancel(core::QueueId(), "me", "", director.now()),
              HasReason("TASK_NOT_FOUND"));
}

TEST(EngineCancelTest, PendingTaskIsCancelledAtOnce) {
  EngineFixture director;
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.Cancel(task), kCancelled);
  EXPECT_EQ(director.State(task), TaskState::kCancelled);
  EXPECT_THAT(director.Line(), IsEmpty());
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kCancelled);
}

TEST(EngineCancelTest, TaskInBackoffIsCancelledAtOnce) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, absl::UnavailableError(""));
  EXPECT_EQ(director.Cancel(task), kCancelled);
  director.AdvanceBeating(absl::Minutes(1));
  EXPECT_EQ(director.State(task), TaskState::kCancelled);
}

TEST(EngineCancelTest, CancelledPlaceIsFreeForAWaiter) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.Cancel(task);
  EXPECT_NE(director.AnswerTo(waiter), nullptr);
}

TEST(EngineCancelTest, WaiterThatLeavesIsGone) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.Leave(waiter);
  director.Cancel(task);
  EXPECT_EQ(director.AnswerTo(waiter), nullptr);
  EXPECT_THAT(director.Line(), IsEmpty());
}

TEST(EngineCancelTest, EndedTaskStaysAsItEnded) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Finish(task);
  const size_t records = director.records_written();
  EXPECT_EQ(director.Cancel(task), kAlreadyEnded) << "a result before the request wins";
  EXPECT_EQ(director.State(task), TaskState::kCompleted);
  EXPECT_EQ(director.records_written(), records);
}

// ---- In flight ----

TEST(EngineCancelTest, TaskInFlightKeepsItsStateAndTheCancelIsPushed) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    EXPECT_EQ(director.State(director.task),
              working ? TaskState::kWorking : TaskState::kDispatching);
    EXPECT_EQ(director.Task(director.task).cancel_requested_at, director.now().wall);
    const std::vector<core::CancelRun> cancels = director.TakeSaid<core::CancelRun>();
    ASSERT_THAT(cancels, SizeIs(1));
    EXPECT_EQ(cancels[0].token, director.Token(director.task));
  }
}

TEST(EngineCancelTest, SecondRequestWritesNothingAndIsAnsweredAlike) {
  CancelledInFlight director(/*working=*/true);
  const size_t records = director.records_written();
  director.Advance(absl::Seconds(1));
  EXPECT_EQ(director.Cancel(director.task), kRequested);
  EXPECT_EQ(director.records_written(), records);
}

TEST(EngineCancelTest, CancelIsSaidAgainUntilTheAgentConfirms) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    const core::FenceToken token = director.Token(director.task);
    director.TakeSaid<core::CancelRun>();
    for (int copy = 1; copy <= 2; ++copy) {
      director.Advance(absl::Seconds(30));
      if (working) director.Beat("a", {token});
      EXPECT_THAT(director.TakeSaid<core::CancelRun>(), SizeIs(1)) << working << copy;
    }
  }
}

TEST(EngineCancelTest, StartIsNotSentAgainOnceCancelIsRequested) {
  CancelledInFlight director(/*working=*/false);
  director.Advance(absl::Seconds(70));
  EXPECT_THAT(director.TakeSaid<core::StartRun>(), IsEmpty());
  director.Break("a");
  director.Connect("a");
  EXPECT_THAT(director.TakeSaid<core::StartRun>(), IsEmpty());
}

TEST(EngineCancelTest, AgentThatAcceptsAfterTheRequestIsToldAgain) {
  CancelledInFlight director(/*working=*/false);
  director.TakeSaid<core::CancelRun>();
  director.Accept(director.task);
  EXPECT_EQ(director.State(director.task), TaskState::kWorking);
  EXPECT_THAT(director.TakeSaid<core::CancelRun>(), SizeIs(1));
}

TEST(EngineCancelTest, AgentThatStillRunsItAtReconnectIsToldAgain) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    director.Break("a");
    director.TakeSaid<core::CancelRun>();
    core::AgentOpened opened = EngineFixture::Knowing("a");
    opened.running = {director.Token(director.task)};
    director.Connect(opened);
    EXPECT_THAT(director.TakeSaid<core::CancelRun>(), SizeIs(1));
    EXPECT_EQ(director.State(director.task), TaskState::kWorking);
  }
}

// ---- Every way out ----

TEST(EngineCancelTest, EveryEndOfTheRunLeadsToCancelled) {
  for (const bool working : {false, true}) {
    for (const RunResult& result : {RunResult{.end = RunResult::End::kCancelled},
                                    RunResult{.end = RunResult::End::kCompleted},
                                    RunResult{.end = RunResult::End::kFailed, .exit_code = 1},
                                    RunResult{.end = RunResult::End::kTimedOut}}) {
      CancelledInFlight director(working);
      const core::FenceToken token = director.Token(director.task);
      director.Finish(director.task, result);
      EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
      EXPECT_FALSE(director.Reason(director.task).has_value());
      const auto acknowledged = director.TakeSaid<core::ResultAcknowledged>();
      ASSERT_THAT(acknowledged, SizeIs(1));
      EXPECT_EQ(acknowledged[0].token, token);
    }
  }
}

TEST(EngineCancelTest, OutputOfACancelledRunIsNotPromoted) {
  CancelledInFlight director(/*working=*/true);
  director.Finish(director.task, {.exit_code = 0, .result = "too late"});
  EXPECT_EQ(director.Task(director.task).result, "");
}

TEST(EngineCancelTest, EveryRefusalOfTheStartLeadsToCancelled) {
  for (const absl::Status& answer :
       {base::WithReason(absl::AbortedError(""), "AGENT_BUSY"), absl::UnavailableError(""),
        absl::InvalidArgumentError(""), absl::UnauthenticatedError("")}) {
    CancelledInFlight director(/*working=*/false);
    director.Answer(director.task, answer);
    EXPECT_EQ(director.State(director.task), TaskState::kCancelled) << answer;
  }
}

TEST(EngineCancelTest, StartThatWasNeverWrittenLeadsToCancelled) {
  CancelledInFlight director(/*working=*/false);
  director.LoseStart(director.task);
  EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
}

TEST(EngineCancelTest, EndOfTheLeaseLeadsToCancelled) {
  for (const bool working : {false, true}) {
    for (const auto on_lost : {core::OnAgentLost::kFail, core::OnAgentLost::kRequeue}) {
      CancelledInFlight director(working, on_lost);
      director.Break("a");
      director.Advance(absl::Seconds(74));
      EXPECT_FALSE(director.Task(director.task).finished_at.has_value());
      director.Advance(absl::Seconds(1));
      EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
    }
  }
}

TEST(EngineCancelTest, InventoryWithoutItLeadsToCancelled) {
  for (const bool working : {false, true}) {
    for (const std::string instance : {"a/1", "a/2"}) {
      CancelledInFlight director(working);
      director.Break("a");
      core::AgentOpened opened = EngineFixture::Knowing("a");
      opened.instance_id = instance;
      if (working) opened.lost = {director.Token(director.task)};
      director.Connect(opened);
      EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
    }
  }
}

TEST(EngineCancelTest, DirectorsOwnGuardLeadsToCancelled) {
  CancelledInFlight director(/*working=*/true);
  director.AdvanceBeating(absl::Seconds(80));
  EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
}

TEST(EngineCancelTest, RequestSurvivesARestartAndIsSaidToTheAgent) {
  for (const bool working : {false, true}) {
    CancelledInFlight director(working);
    const core::FenceToken token = director.Token(director.task);
    director.Restart();
    core::AgentOpened opened = EngineFixture::Knowing("a");
    opened.running = {token};
    director.Connect(opened);
    EXPECT_THAT(director.TakeSaid<core::CancelRun>(), SizeIs(1));
    director.Finish(director.task);
    EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
  }
}

TEST(EngineCancelTest, CancelledTaskIsNeverRetriedAndCountsAgainstNobody) {
  CancelledInFlight director(/*working=*/true, core::OnAgentLost::kRequeue);
  director.Finish(director.task, {.end = RunResult::End::kFailed, .exit_code = 1});
  director.AdvanceBeating(absl::Minutes(10));
  EXPECT_EQ(director.State(director.task), TaskState::kCancelled);
  EXPECT_THAT(director.engine().fleet().agents().at("a").failed_tasks, IsEmpty());
}

}  // namespace
}  // namespace callboard::director
