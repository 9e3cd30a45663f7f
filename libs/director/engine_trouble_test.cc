// Lost agents, poisonous tasks, time that runs out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::TaskState;
using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission Until(absl::Time deadline) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.deadline_at = deadline;
  return submission;
}

bool IsCordoned(EngineFixture& director, const std::string& agent) {
  return director.engine().fleet().agents().at(agent).cordoned;
}

// ---- Lost agents ----

TEST(EngineTroubleTest, RunWhoseLeaseEndsFailsAsLost) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Advance(absl::Seconds(20));
  director.Beat("a", {director.Token(task)});
  director.Break("a");
  director.Advance(absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kWorking) << "renewed by the heartbeat";
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
  EXPECT_EQ(director.Task(task).attempts, 1u);
}

TEST(EngineTroubleTest, HeartbeatRenewsOnlyTheLeasesItLists) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["default"].slots = 2;
  director.Connect(agent);
  const core::QueueId listed = director.Add();
  const core::QueueId unlisted = director.Add();
  director.Accept(listed);
  director.Accept(unlisted);
  director.Advance(absl::Seconds(40));
  director.Beat("a", {director.Token(listed)});
  director.Advance(absl::Seconds(35));
  EXPECT_EQ(director.Reason(unlisted), FailureReason::kAgentLost);
  EXPECT_EQ(director.State(listed), TaskState::kWorking);
}

TEST(EngineTroubleTest, HeartbeatOvertakenByALaterOneRenewsNothing) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  const absl::Duration early = director.now().monotonic - absl::Seconds(1);
  director.Advance(absl::Seconds(40));
  director.Say("a", core::Heartbeat{early, {director.Token(task)}});
  director.Advance(absl::Seconds(35));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineTroubleTest, LostTaskThatMayBeRequeuedReturnsAheadOfEverythingLater) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(EngineFixture::Requeued());
  const core::QueueId other = director.Add();
  director.Accept(task);
  director.Break("a");
  director.Advance(absl::Seconds(75));
  EXPECT_THAT(director.Line(), ElementsAre(task, other));
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_FALSE(director.Task(task).not_before.has_value()) << "without a backoff";
}

TEST(EngineTroubleTest, LostTwiceOnTheLastAttemptsIsAgentLost) {
  EngineFixture director;
  core::Submission submission = EngineFixture::Requeued();
  submission.spec.max_attempts = 1;
  director.Connect("a");
  const core::QueueId task = director.Add(submission);
  director.Accept(task);
  director.Break("a");
  director.Advance(absl::Seconds(75));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineTroubleTest, AnnouncementAloneEndsNothing) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Break("a");
  ASSERT_TRUE(director.engine().Announce({"a", "a/2", "grpc://a"}, director.now()).ok());
  director.Advance(absl::Seconds(74));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
}

TEST(EngineTroubleTest, TaskThatTookDownTwoAgentsIsPoison) {
  EngineFixture director;
  core::Submission submission = EngineFixture::Requeued();
  submission.spec.max_attempts = 10;
  const core::QueueId task = director.Add(submission);
  for (const std::string agent : {"a", "b"}) {
    director.Connect(agent);
    director.Accept(task);
    director.Break(agent);
    director.Advance(absl::Seconds(75));
  }
  EXPECT_EQ(director.Reason(task), FailureReason::kPoison);
}

TEST(EngineTroubleTest, SameAgentLostTwiceIsNoPoison) {
  EngineFixture director;
  const core::QueueId task = director.Add(EngineFixture::Requeued());
  for (int loss = 1; loss <= 2; ++loss) {
    director.Connect("a");
    director.AdvanceBeating(absl::Seconds(20));
    ASSERT_EQ(director.State(task), TaskState::kDispatching);
    director.Accept(task);
    director.Break("a");
    director.Advance(absl::Seconds(75));
  }
  EXPECT_EQ(director.State(task), TaskState::kPending);
}

// ---- Starts without an answer ----

TEST(EngineTroubleTest, StartWhoseLeaseEndsUnansweredGoesToAnotherAgent) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Connect("b");
  director.AdvanceBeating(absl::Seconds(75));
  EXPECT_EQ(director.AgentOf(task), "b");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  EXPECT_EQ(director.Task(task).attempts, 1u);
}

TEST(EngineTroubleTest, NeitherSessionNorHeartbeatEndsTheSuspicionOfAnUnansweredStart) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AdvanceBeating(absl::Seconds(75));
  ASSERT_EQ(director.State(task), TaskState::kPending);
  director.Connect("a");
  director.Beat("a", {});
  director.Break("a");
  director.Connect("a");
  director.Advance(absl::Seconds(5) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kDispatching) << "its time does";
  // The lease counts from what was last heard before the start.
  director.AdvanceBeating(absl::Seconds(70));
  EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(),
            director.now().monotonic + absl::Seconds(10))
      << "the second in a row counts twice as long";
}

TEST(EngineTroubleTest, AnsweredStartOrAKickEndsTheSuspicionOfAnUnansweredOne) {
  const absl::Status answers[] = {absl::OkStatus(), absl::InternalError("")};
  for (const absl::Status& answer : answers) {
    EngineFixture director;
    core::AgentOpened agent = EngineFixture::Knowing("a");
    agent.lanes["default"].slots = 2;
    director.Connect(agent);
    const core::QueueId unanswered = director.Add();
    director.AdvanceBeating(absl::Seconds(50));
    const core::QueueId answered = director.Add();
    director.AdvanceBeating(absl::Seconds(25));
    ASSERT_EQ(director.State(unanswered), TaskState::kPending);
    director.Answer(answered, answer);
    EXPECT_EQ(director.State(unanswered), TaskState::kDispatching) << answer;
  }
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AdvanceBeating(absl::Seconds(75));
  ASSERT_EQ(director.State(task), TaskState::kPending);
  EXPECT_EQ(director.Kick().suspicions, 1u);
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineTroubleTest, AgentThatLeavesThreeDistinctStartsUnansweredIsCordoned) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  for (int task = 0; task < 3; ++task) director.Add();
  director.AdvanceBeating(absl::Seconds(74));
  EXPECT_FALSE(IsCordoned(director, "a"));
  director.Advance(absl::Seconds(1));
  EXPECT_TRUE(IsCordoned(director, "a"));
  EXPECT_THAT(director.Line(), SizeIs(3));
}

TEST(EngineTroubleTest, AgentWhoseSessionsEndForAMessageThatIsTooLargeIsCordonedAtTheThird) {
  EngineFixture director;
  const absl::Status why = base::WithReason(
      absl::ResourceExhaustedError("Received message larger than max"), "MESSAGE_TOO_LARGE");
  for (int session = 1; session <= 3; ++session) {
    director.Connect("a");
    EXPECT_FALSE(IsCordoned(director, "a")) << session;
    director.Break("a", why);
  }
  EXPECT_TRUE(IsCordoned(director, "a"));
  EXPECT_THAT(director.engine().fleet().agents().at("a").mark_why, HasSubstr("larger than max"));
  director.Connect("a");
  EXPECT_TRUE(IsCordoned(director, "a"));
}

// ---- Which agent next ----

TEST(EngineTroubleTest, RetryPrefersAnAgentTheTaskHasNotFailedOn) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  const core::QueueId task = director.Add();
  ASSERT_EQ(director.AgentOf(task), "a");
  director.Answer(task, absl::InternalError(""));
  director.AdvanceBeating(absl::Seconds(5));
  EXPECT_EQ(director.AgentOf(task), "b");
}

TEST(EngineTroubleTest, RetryTakesAnAgentItFailedOnRatherThanNone) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, absl::InternalError(""));
  director.AdvanceBeating(absl::Seconds(5));
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineTroubleTest, AgentThatFailedThreeDistinctTasksInARowIsCordoned) {
  EngineFixture director;
  director.Connect("a");
  for (int failure = 1; failure <= 3; ++failure) {
    EXPECT_FALSE(IsCordoned(director, "a")) << failure;
    director.Answer(director.Add(), absl::InternalError(""));
  }
  EXPECT_TRUE(IsCordoned(director, "a"));
  director.AdvanceBeating(absl::Minutes(1));
  EXPECT_THAT(director.Line(), SizeIs(3)) << "it gets none of them again";
}

TEST(EngineTroubleTest, AgentThatCouldNotBeginThreeDistinctTasksInARowIsCordoned) {
  EngineFixture director;
  director.Connect("a");
  for (int failure = 1; failure <= 3; ++failure) {
    EXPECT_FALSE(IsCordoned(director, "a")) << failure;
    const core::QueueId task = director.Add();
    director.Answer(task, absl::OkStatus());
    director.Finish(task, {.end = core::RunResult::End::kNotStarted, .error = "no space left"});
    director.Report("a", /*used=*/0);
  }
  EXPECT_TRUE(IsCordoned(director, "a"));
  EXPECT_THAT(director.Line(), SizeIs(3)) << "and each waits for a better one";
}

TEST(EngineTroubleTest, SameTaskFailingThriceDoesNotCordon) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  for (int failure = 1; failure <= 3; ++failure) {
    director.Answer(task, absl::InternalError(""));
    director.AdvanceBeating(absl::Seconds(20));
  }
  EXPECT_EQ(director.State(task), TaskState::kFailed);
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineTroubleTest, SuccessEndsTheRowOfFailures) {
  EngineFixture director;
  director.Connect("a");
  director.Answer(director.Add(), absl::InternalError(""));
  director.Answer(director.Add(), absl::InternalError(""));
  const core::QueueId good = director.Add();
  director.Accept(good);
  director.Finish(good);
  director.Answer(director.Add(), absl::InternalError(""));
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineTroubleTest, BusyAnswersDoNotCordon) {
  EngineFixture director;
  director.Connect("a");
  for (const core::QueueId task : {director.Add(), director.Add(), director.Add()}) {
    director.RefuseAsBusy(task);
    director.Beat("a", {});
    director.Report("a", /*used=*/0);
  }
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineTroubleTest, RunThatFailsOfItselfDoesNotCordon) {
  EngineFixture director;
  director.Connect("a");
  for (int failure = 1; failure <= 3; ++failure) {
    const core::QueueId task = director.Add();
    director.Accept(task);
    director.Finish(task, {.end = core::RunResult::End::kFailed, .exit_code = 1});
  }
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineTroubleTest, NewInstanceLiftsACordonAndTheSameInstanceDoesNot) {
  EngineFixture director;
  director.Connect("a");
  director.Answer(director.Add(), absl::UnauthenticatedError(""));
  director.Connect("a");
  EXPECT_TRUE(IsCordoned(director, "a"));
  core::AgentOpened reborn = EngineFixture::Knowing("a");
  reborn.instance_id = "a/2";
  director.Connect(reborn);
  EXPECT_FALSE(IsCordoned(director, "a"));
}

TEST(EngineTroubleTest, UndrainLiftsACordon) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, absl::UnauthenticatedError(""));
  director.UndrainAgent("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

// ---- Deadlines ----

TEST(EngineTroubleTest, TaskThatDidNotStartByItsDeadlineExpires) {
  EngineFixture director;
  const core::QueueId task = director.Add(Until(director.now().wall + absl::Minutes(1)));
  director.Advance(absl::Minutes(1) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
  EXPECT_EQ(director.Events(task).back().kind, core::TaskEventKind::kExpired);
}

TEST(EngineTroubleTest, DeadlineIsOfTheStartNotOfTheEnd) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(Until(director.now().wall + absl::Minutes(1)));
  director.Accept(task);
  director.AdvanceBeating(absl::Minutes(2));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
}

TEST(EngineTroubleTest, DeadlineFollowsTheWallClock) {
  EngineFixture director;
  const core::QueueId task = director.Add(Until(director.now().wall + absl::Hours(5)));
  director.StepWall(absl::Hours(5));
  EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
}

TEST(EngineTroubleTest, DeadlineEndsTasksInBackoffDelayedAndPaused) {
  EngineFixture director;
  director.Connect("a");
  const absl::Time deadline = director.now().wall + absl::Minutes(1);
  const core::QueueId backing_off = director.Add(Until(deadline));
  director.Answer(backing_off, base::WithRetryAfter(absl::InternalError(""), absl::Hours(1)));
  core::Submission later = Until(deadline);
  later.spec.earliest_start_at = deadline + absl::Hours(1);
  const core::QueueId delayed = director.Add(later);
  director.Tell(&DirectorEngine::Pause);
  const core::QueueId paused = director.Add(Until(deadline));
  director.AdvanceBeating(absl::Minutes(1));
  for (const core::QueueId task : {backing_off, delayed, paused}) {
    EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
  }
}

TEST(EngineTroubleTest, TaskThatReturnsAfterItsDeadlineExpires) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(Until(director.now().wall + absl::Minutes(1)));
  director.StepWall(absl::Minutes(2));
  ASSERT_EQ(director.State(task), TaskState::kDispatching);
  director.RefuseAsBusy(task);
  director.Advance(absl::ZeroDuration());
  EXPECT_EQ(director.Reason(task), FailureReason::kExpired);
}

// ---- The director's own guard ----

TEST(EngineTroubleTest, RunBeyondItsTimeoutIsEndedByTheDirectorAndNeverRetried) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.timeout = absl::Seconds(100);
  submission.spec.retry_on = {*core::ParseRetryRule("timeout")};
  const core::QueueId task = director.Add(submission);
  director.AdvanceBeating(absl::Seconds(20));
  director.Accept(task);
  director.AdvanceBeating(absl::Seconds(170) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  EXPECT_THAT(director.TakeSaid<core::CancelRun>(), IsEmpty());
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kFailed);
  EXPECT_EQ(director.Reason(task), FailureReason::kTimedOut);
  EXPECT_EQ(director.Events(task).back().kind, core::TaskEventKind::kTimeout);
  const std::vector<core::CancelRun> cancels = director.TakeSaid<core::CancelRun>();
  ASSERT_THAT(cancels, SizeIs(1));
  EXPECT_EQ(cancels[0].token, director.Token(task));
}

TEST(EngineTroubleTest, SlotOfAGuardedRunStaysTakenUntilTheAgentReportsItFree) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.timeout = absl::Seconds(10);
  const core::QueueId task = director.Add(submission);
  director.Accept(task);
  const core::QueueId next = director.Add();
  director.AdvanceBeating(absl::Seconds(80));
  ASSERT_EQ(director.Reason(task), FailureReason::kTimedOut);
  director.Beat("a", {director.Token(task)});
  EXPECT_EQ(director.State(next), TaskState::kPending);
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(next), TaskState::kDispatching);
}

TEST(EngineTroubleTest, StartOfWhichOneCopyWasWrittenIsNotUnreachable) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  // The Session broke before the first copy was written, and the next one had a second.
  director.Break("a");
  director.Connect("a");
  director.LoseStart(task);
  EXPECT_EQ(director.State(task), core::TaskState::kDispatching);
  director.LoseStart(task);
  EXPECT_EQ(director.State(task), core::TaskState::kPending);
}

TEST(EngineTroubleTest, FailedRedialDoesNotProlongTheSuspicionOfABrokenSession) {
  EngineFixture director;
  director.Connect("a");
  director.Break("a");
  const absl::Duration until = director.engine().fleet().agents().at("a").suspect_until();
  for (int redial = 0; redial < 10; ++redial) {
    director.Advance(absl::Milliseconds(140));
    director.engine().OnUnreachable("a", absl::UnavailableError("refused"), director.now());
  }
  EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(), until);
}

TEST(EngineTroubleTest, EndOfASuspicionIsDueUntilItIsActedUpon) {
  EngineFixture director;
  director.Connect("a");
  director.Break("a");
  Moment late = director.now();
  late.monotonic += absl::Seconds(6);
  EXPECT_EQ(director.engine().UntilNextTimer(late), absl::ZeroDuration());
  director.engine().FireTimers(late);
  EXPECT_GT(director.engine().UntilNextTimer(late), absl::ZeroDuration());
}

}  // namespace
}  // namespace callboard::director
