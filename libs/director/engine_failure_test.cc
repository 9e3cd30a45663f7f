// Lost agents, poison tasks, deadlines and timeouts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::LifecycleState;
using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission WithDeadline(absl::Time deadline) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.deadline_at = deadline;
  return submission;
}

bool IsCordoned(EngineFixture& director, const std::string& agent) {
  return director.engine().fleet().agents().at(agent).cordoned;
}

// ---- Lost agents ----

TEST(EngineFailureTest, RunWhoseLeaseEndsFailsAsLost) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Advance(absl::Seconds(20));
  director.SendHeartbeat("a", {director.Token(task)});
  director.BreakSession("a");
  director.Advance(absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking) << "renewed by the heartbeat";
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
  EXPECT_EQ(director.Task(task).attempts, 1u);
}

TEST(EngineFailureTest, HeartbeatRenewsOnlyTheLeasesItLists) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 2;
  director.Connect(agent);
  const core::QueueId listed = director.Add();
  const core::QueueId unlisted = director.Add();
  director.AcceptStart(listed);
  director.AcceptStart(unlisted);
  director.Advance(absl::Seconds(40));
  director.SendHeartbeat("a", {director.Token(listed)});
  director.Advance(absl::Seconds(35));
  EXPECT_EQ(director.Reason(unlisted), FailureReason::kAgentLost);
  EXPECT_EQ(director.State(listed), LifecycleState::kWorking);
}

TEST(EngineFailureTest, HeartbeatOvertakenByALaterOneRenewsNothing) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  const absl::Duration early = director.now().monotonic - absl::Seconds(1);
  director.Advance(absl::Seconds(40));
  director.Send("a", core::Heartbeat{early, {director.Token(task)}});
  director.Advance(absl::Seconds(35));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineFailureTest, RequeuedLostTaskKeepsItsPosition) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(EngineFixture::RequeueOnLoss());
  const core::QueueId other = director.Add();
  director.AcceptStart(task);
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  EXPECT_THAT(director.PendingTasks(), ElementsAre(task, other));
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_FALSE(director.Task(task).not_before.has_value()) << "without a backoff";
}

TEST(EngineFailureTest, LostTwiceOnTheLastAttemptsIsAgentLost) {
  EngineFixture director;
  core::Submission submission = EngineFixture::RequeueOnLoss();
  submission.spec.terms.max_attempts = 1;
  director.Connect("a");
  const core::QueueId task = director.Add(submission);
  director.AcceptStart(task);
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineFailureTest, AnnouncementAloneDoesNotEndARun) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.BreakSession("a");
  ASSERT_TRUE(director.engine().Announce({"a", "a/2", "grpc://a"}, director.now()).ok());
  director.Advance(absl::Seconds(74));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
}

TEST(EngineFailureTest, TaskThatLostTwoAgentsIsPoison) {
  EngineFixture director;
  core::Submission submission = EngineFixture::RequeueOnLoss();
  submission.spec.terms.max_attempts = 10;
  const core::QueueId task = director.Add(submission);
  for (const std::string agent : {"a", "b"}) {
    director.Connect(agent);
    director.AcceptStart(task);
    director.BreakSession(agent);
    director.Advance(absl::Seconds(75));
  }
  EXPECT_EQ(director.Reason(task), FailureReason::kPoison);
}

TEST(EngineFailureTest, TaskThatLostTheSameAgentTwiceIsNotPoison) {
  EngineFixture director;
  const core::QueueId task = director.Add(EngineFixture::RequeueOnLoss());
  for (int loss = 1; loss <= 2; ++loss) {
    director.Connect("a");
    director.AdvanceWithHeartbeats(absl::Seconds(20));
    ASSERT_EQ(director.State(task), LifecycleState::kDispatching);
    director.AcceptStart(task);
    director.BreakSession("a");
    director.Advance(absl::Seconds(75));
  }
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
}

// ---- Starts without an answer ----

TEST(EngineFailureTest, UnansweredStartGoesToAnotherAgentAfterItsLease) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Connect("b");
  director.AdvanceWithHeartbeats(absl::Seconds(75));
  EXPECT_EQ(director.AgentOf(task), "b");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  EXPECT_EQ(director.Task(task).attempts, 1u);
}

TEST(EngineFailureTest, SuspicionOfUnansweredStartsOutlivesSessions) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AdvanceWithHeartbeats(absl::Seconds(75));
  ASSERT_EQ(director.State(task), LifecycleState::kPending);
  director.Connect("a");
  director.SendHeartbeat("a", {});
  director.BreakSession("a");
  director.Connect("a");
  director.Advance(absl::Seconds(5) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching) << "the suspicion has expired";
  // The lease counts from the last message before the start.
  director.AdvanceWithHeartbeats(absl::Seconds(70));
  EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(),
            director.now().monotonic + absl::Seconds(10))
      << "the second one in a row lasts twice as long";
}

TEST(EngineFailureTest, AnsweredStartOrKickEndsTheSuspicionOfUnansweredStarts) {
  const absl::Status answers[] = {absl::OkStatus(), absl::InternalError("")};
  for (const absl::Status& answer : answers) {
    EngineFixture director;
    core::SessionOpened agent = EngineFixture::IdleAgent("a");
    agent.lanes["default"].slots = 2;
    director.Connect(agent);
    const core::QueueId unanswered = director.Add();
    director.AdvanceWithHeartbeats(absl::Seconds(50));
    const core::QueueId answered = director.Add();
    director.AdvanceWithHeartbeats(absl::Seconds(25));
    ASSERT_EQ(director.State(unanswered), LifecycleState::kPending);
    director.AnswerStart(answered, answer);
    EXPECT_EQ(director.State(unanswered), LifecycleState::kDispatching) << answer;
  }
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AdvanceWithHeartbeats(absl::Seconds(75));
  ASSERT_EQ(director.State(task), LifecycleState::kPending);
  EXPECT_EQ(director.Kick().suspicions, 1u);
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineFailureTest, AgentWithThreeUnansweredStartsIsCordoned) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  for (int task = 0; task < 3; ++task) director.Add();
  director.AdvanceWithHeartbeats(absl::Seconds(74));
  EXPECT_FALSE(IsCordoned(director, "a"));
  director.Advance(absl::Seconds(1));
  EXPECT_TRUE(IsCordoned(director, "a"));
  EXPECT_THAT(director.PendingTasks(), SizeIs(3));
}

TEST(EngineFailureTest, AgentWithThreeOversizedMessagesIsCordoned) {
  EngineFixture director;
  const absl::Status why = base::WithReason(
      absl::ResourceExhaustedError("Received message larger than max"), "MESSAGE_TOO_LARGE");
  for (int session = 1; session <= 3; ++session) {
    director.Connect("a");
    EXPECT_FALSE(IsCordoned(director, "a")) << session;
    director.BreakSession("a", why);
  }
  EXPECT_TRUE(IsCordoned(director, "a"));
  EXPECT_THAT(director.engine().fleet().agents().at("a").mark_why, HasSubstr("larger than max"));
  director.Connect("a");
  EXPECT_TRUE(IsCordoned(director, "a"));
}

// ---- Which agent next ----

TEST(EngineFailureTest, RetryPrefersAnAgentTheTaskHasNotFailedOn) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  const core::QueueId task = director.Add();
  ASSERT_EQ(director.AgentOf(task), "a");
  director.AnswerStart(task, absl::InternalError(""));
  director.AdvanceWithHeartbeats(absl::Seconds(5));
  EXPECT_EQ(director.AgentOf(task), "b");
}

TEST(EngineFailureTest, RetryUsesAnAgentItFailedOnIfThereIsNoOther) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::InternalError(""));
  director.AdvanceWithHeartbeats(absl::Seconds(5));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineFailureTest, AgentThatFailedThreeTasksInARowIsCordoned) {
  EngineFixture director;
  director.Connect("a");
  for (int failure = 1; failure <= 3; ++failure) {
    EXPECT_FALSE(IsCordoned(director, "a")) << failure;
    director.AnswerStart(director.Add(), absl::InternalError(""));
  }
  EXPECT_TRUE(IsCordoned(director, "a"));
  director.AdvanceWithHeartbeats(absl::Minutes(1));
  EXPECT_THAT(director.PendingTasks(), SizeIs(3)) << "the cordoned agent gets none of them again";
}

TEST(EngineFailureTest, AgentThatCouldNotStartThreeTasksIsCordoned) {
  EngineFixture director;
  director.Connect("a");
  for (int failure = 1; failure <= 3; ++failure) {
    EXPECT_FALSE(IsCordoned(director, "a")) << failure;
    const core::QueueId task = director.Add();
    director.AnswerStart(task, absl::OkStatus());
    director.FinishRun(task, {.end = core::RunResult::End::kNotStarted, .error = "no space left"});
    director.ReportLoad("a", /*used=*/0);
  }
  EXPECT_TRUE(IsCordoned(director, "a"));
  EXPECT_THAT(director.PendingTasks(), SizeIs(3)) << "each waits for another agent";
}

TEST(EngineFailureTest, SameTaskFailingThreeTimesDoesNotCordon) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  for (int failure = 1; failure <= 3; ++failure) {
    director.AnswerStart(task, absl::InternalError(""));
    director.AdvanceWithHeartbeats(absl::Seconds(20));
  }
  EXPECT_EQ(director.State(task), LifecycleState::kFailed);
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineFailureTest, SuccessResetsTheFailures) {
  EngineFixture director;
  director.Connect("a");
  director.AnswerStart(director.Add(), absl::InternalError(""));
  director.AnswerStart(director.Add(), absl::InternalError(""));
  const core::QueueId good = director.Add();
  director.AcceptStart(good);
  director.FinishRun(good);
  director.AnswerStart(director.Add(), absl::InternalError(""));
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineFailureTest, BusyAnswersDoNotCordon) {
  EngineFixture director;
  director.Connect("a");
  for (const core::QueueId task : {director.Add(), director.Add(), director.Add()}) {
    director.AnswerBusy(task);
    director.SendHeartbeat("a", {});
    director.ReportLoad("a", /*used=*/0);
  }
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineFailureTest, FailedRunDoesNotCordon) {
  EngineFixture director;
  director.Connect("a");
  for (int failure = 1; failure <= 3; ++failure) {
    const core::QueueId task = director.Add();
    director.AcceptStart(task);
    director.FinishRun(task, {.end = core::RunResult::End::kFailed, .exit_code = 1});
  }
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineFailureTest, OnlyANewInstanceLiftsACordon) {
  EngineFixture director;
  director.Connect("a");
  director.AnswerStart(director.Add(), absl::UnauthenticatedError(""));
  director.Connect("a");
  EXPECT_TRUE(IsCordoned(director, "a"));
  core::SessionOpened reborn = EngineFixture::IdleAgent("a");
  reborn.instance_id = "a/2";
  director.Connect(reborn);
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineFailureTest, UndrainLiftsACordon) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::UnauthenticatedError(""));
  director.UndrainAgent("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

// ---- Deadlines ----

TEST(EngineFailureTest, TaskThatDidNotStartByItsDeadlineExpires) {
  EngineFixture director;
  const core::QueueId task = director.Add(WithDeadline(director.now().wall + absl::Minutes(1)));
  director.Advance(absl::Minutes(1) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
  EXPECT_EQ(director.Events(task).back().kind, core::TaskEventKind::kExpired);
}

TEST(EngineFailureTest, DeadlineAppliesToTheStart) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(WithDeadline(director.now().wall + absl::Minutes(1)));
  director.AcceptStart(task);
  director.AdvanceWithHeartbeats(absl::Minutes(2));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
}

TEST(EngineFailureTest, DeadlineFollowsTheWallClock) {
  EngineFixture director;
  const core::QueueId task = director.Add(WithDeadline(director.now().wall + absl::Hours(5)));
  director.StepWall(absl::Hours(5));
  EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
}

TEST(EngineFailureTest, DeadlineEndsTasksInBackoffDelayedAndPaused) {
  EngineFixture director;
  director.Connect("a");
  const absl::Time deadline = director.now().wall + absl::Minutes(1);
  const core::QueueId backing_off = director.Add(WithDeadline(deadline));
  director.AnswerStart(backing_off, base::WithRetryAfter(absl::InternalError(""), absl::Hours(1)));
  core::Submission later = WithDeadline(deadline);
  later.spec.earliest_start_at = deadline + absl::Hours(1);
  const core::QueueId delayed = director.Add(later);
  director.Call(&DirectorEngine::Pause);
  const core::QueueId paused = director.Add(WithDeadline(deadline));
  director.AdvanceWithHeartbeats(absl::Minutes(1));
  for (const core::QueueId task : {backing_off, delayed, paused}) {
    EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
  }
}

TEST(EngineFailureTest, TaskThatReturnsAfterItsDeadlineExpires) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(WithDeadline(director.now().wall + absl::Minutes(1)));
  director.StepWall(absl::Minutes(2));
  ASSERT_EQ(director.State(task), LifecycleState::kDispatching);
  director.AnswerBusy(task);
  director.Advance(absl::ZeroDuration());
  EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
}

// ---- The director's own guard ----

TEST(EngineFailureTest, DirectorEndsARunBeyondItsTimeoutWithoutRetry) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.timeout = absl::Seconds(100);
  submission.spec.terms.retry_on = {*core::ParseRetryRule("timeout")};
  const core::QueueId task = director.Add(submission);
  director.AdvanceWithHeartbeats(absl::Seconds(20));
  director.AcceptStart(task);
  director.AdvanceWithHeartbeats(absl::Seconds(170) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  EXPECT_THAT(director.TakeSent<core::CancelRun>(), IsEmpty());
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kFailed);
  EXPECT_EQ(director.Reason(task), FailureReason::kTimedOut);
  EXPECT_EQ(director.Events(task).back().kind, core::TaskEventKind::kTimeout);
  const std::vector<core::CancelRun> cancels = director.TakeSent<core::CancelRun>();
  ASSERT_THAT(cancels, SizeIs(1));
  EXPECT_EQ(cancels[0].token, director.Token(task));
}

TEST(EngineFailureTest, SlotOfAGuardedRunIsUsedUntilTheAgentReportsItFree) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.timeout = absl::Seconds(10);
  const core::QueueId task = director.Add(submission);
  director.AcceptStart(task);
  const core::QueueId next = director.Add();
  director.AdvanceWithHeartbeats(absl::Seconds(80));
  ASSERT_EQ(director.Reason(task), FailureReason::kTimedOut);
  director.SendHeartbeat("a", {director.Token(task)});
  EXPECT_EQ(director.State(next), LifecycleState::kPending);
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(next), LifecycleState::kDispatching);
}

TEST(EngineFailureTest, StartWithOneWrittenCopyIsNotUnreachable) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  // The Session closed before the first copy was written, and the next Session got a second one.
  director.BreakSession("a");
  director.Connect("a");
  director.FailStartWrite(task);
  EXPECT_EQ(director.State(task), core::LifecycleState::kDispatching);
  director.FailStartWrite(task);
  EXPECT_EQ(director.State(task), core::LifecycleState::kPending);
}

TEST(EngineFailureTest, FailedRedialDoesNotExtendTheSuspicion) {
  EngineFixture director;
  director.Connect("a");
  director.BreakSession("a");
  const absl::Duration until = director.engine().fleet().agents().at("a").suspect_until();
  for (int redial = 0; redial < 10; ++redial) {
    director.Advance(absl::Milliseconds(140));
    director.engine().OnUnreachable("a", absl::UnavailableError("refused"), director.now());
  }
  EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(), until);
}

TEST(EngineFailureTest, ExpiredSuspicionIsDueUntilTimersFire) {
  EngineFixture director;
  director.Connect("a");
  director.BreakSession("a");
  Moment late = director.now();
  late.monotonic += absl::Seconds(6);
  EXPECT_EQ(director.engine().TimeUntilNextTimer(late), absl::ZeroDuration());
  director.engine().FireTimers(late);
  EXPECT_GT(director.engine().TimeUntilNextTimer(late), absl::ZeroDuration());
}

}  // namespace
}  // namespace callboard::director
