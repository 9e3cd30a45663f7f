// What becomes of a dispatch: the table of outcomes, row by row.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/core/backoff.h"
#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::RunResult;
using core::TaskState;
using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission Retried(const std::string& rule) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.retry_on = {*core::ParseRetryRule(rule)};
  return submission;
}

const RunResult kExit1 = {.end = RunResult::End::kFailed, .exit_code = 1};
const RunResult kKilled = {.end = RunResult::End::kFailed, .signal = "SIGKILL"};
const RunResult kNotStarted = {.end = RunResult::End::kNotStarted, .error = "no space left"};
const RunResult kTimeout = {.end = RunResult::End::kTimedOut};

// ---- 409 ----

TEST(EngineOutcomeTest, BusyAnswerPutsTheTaskAtTheBackAndIsNotCounted) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.RefuseAsBusy(task);
  EXPECT_THAT(director.Line(), ElementsAre(other, task));
  EXPECT_EQ(director.Task(task).attempts, 0u);
  EXPECT_EQ(director.Task(task).busy_rejections, 1u);
}

TEST(EngineOutcomeTest, BusyAnswerIsNobodysFaultWhenTheAgentReportedThatItIsFull) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const auto fault = [&] {
    std::optional<core::Fault> last;
    for (const core::TaskEvent& event : director.Events(task)) {
      if (event.kind == core::TaskEventKind::kBusy) last = event.fault;
    }
    return last;
  };
  director.RefuseAsBusy(task);
  EXPECT_EQ(fault(), core::Fault::kAgent) << "it said it had a slot";
  director.Beat("a", {});
  director.Report("a", /*used=*/0);
  ASSERT_EQ(director.State(task), TaskState::kDispatching);
  // Something else took the slot while the start was on its way.
  director.Report("a", /*used=*/1);
  director.RefuseAsBusy(task);
  EXPECT_EQ(fault(), std::nullopt);
}

TEST(EngineOutcomeTest, FailedRunWithoutAnExitCodeSaysSo) {
  EngineFixture director;
  director.Connect("a");
  const auto error = [&director](const core::RunResult& result) {
    const core::QueueId task = director.Add();
    director.Finish(task, result);
    return director.Task(task).last_error;
  };
  EXPECT_EQ(error({.end = core::RunResult::End::kFailed}), "it failed without an exit code");
  EXPECT_EQ(error({.end = core::RunResult::End::kFailed, .exit_code = 3}), "it exited with 3");
}

TEST(EngineOutcomeTest, BusyLaneIsFullUntilTheAgentsNextLoadReport) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["build"] = {.slots = 1, .used = 0};
  director.Connect(agent);
  const core::QueueId task = director.Add();
  director.RefuseAsBusy(task);
  director.Beat("a", {});
  EXPECT_EQ(director.State(task), TaskState::kPending);
  core::Submission build = EngineFixture::Prompt();
  build.spec.lane = "build";
  EXPECT_EQ(director.State(director.Add(build)), TaskState::kDispatching) << "that lane only";
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  EXPECT_EQ(director.Task(task).dispatch, core::DispatchNumber(2));
}

TEST(EngineOutcomeTest, FromTheFifthBounceOnTheTaskKeepsItsPlace) {
  EngineFixture director({.queue = {.max_size = 0}});
  director.Connect("a");
  const core::QueueId task = director.Add();
  core::Submission unplaceable = EngineFixture::Prompt();
  unplaceable.spec.lane = "nowhere";
  core::QueueId last = director.Add(unplaceable);
  for (int bounce = 1; bounce <= 7; ++bounce) {
    director.RefuseAsBusy(task);
    EXPECT_EQ(director.Line().back(), bounce < 5 ? task : last) << bounce;
    last = director.Add(unplaceable);
    director.Beat("a", {});
    director.Report("a", /*used=*/0);
    ASSERT_EQ(director.State(task), TaskState::kDispatching) << bounce;
  }
  EXPECT_EQ(director.Task(task).busy_rejections, 7u);
}

TEST(EngineOutcomeTest, FromTheThirdBusyAnswerInARowOnlyTheReportOfAHeartbeatCounts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  for (int bounce = 1; bounce <= 2; ++bounce) {
    director.RefuseAsBusy(task);
    director.Report("a", /*used=*/0);
    ASSERT_EQ(director.State(task), TaskState::kDispatching) << bounce;
  }
  director.RefuseAsBusy(task);
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Beat("a", {});
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineOutcomeTest, AcceptedStartEndsTheRowOfBusyAnswers) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId first = director.Add();
  for (int bounce = 1; bounce <= 2; ++bounce) {
    director.RefuseAsBusy(first);
    director.Report("a", /*used=*/0);
  }
  director.Accept(first);
  director.Finish(first);
  const core::QueueId second = director.Add();
  director.RefuseAsBusy(second);
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(second), TaskState::kDispatching);
}

// ---- Other answers ----

TEST(EngineOutcomeTest, RunThatCouldNotBeginReturnsToItsPlaceAfterABackoffAndCounts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.Answer(task, absl::OkStatus());
  const core::FenceToken token = director.Token(task);
  director.Finish(task, kNotStarted);
  EXPECT_EQ(director.State(task), TaskState::kPending);
  EXPECT_THAT(director.Line(), ElementsAre(task)) << "in front, and passed over";
  EXPECT_EQ(director.State(other), TaskState::kDispatching);
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_EQ(director.Task(task).last_error, "no space left");
  // Its agent has not heard that this is known.
  director.Say("a", core::RunEnded{token, kNotStarted});
  EXPECT_EQ(director.Task(task).attempts, 1u);
  director.Finish(other);
  director.Advance(core::BackoffAfter(task, 1, {}));
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineOutcomeTest, RunThatCouldNotBeginInAnyAttemptIsMaxAttempts) {
  EngineFixture director({.queue = {.max_attempts = 1}});
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, absl::OkStatus());
  director.Finish(task, kNotStarted);
  EXPECT_EQ(director.State(task), TaskState::kFailed);
  EXPECT_EQ(director.Task(task).reason, FailureReason::kMaxAttempts);
}

TEST(EngineOutcomeTest, AgentThatCouldNotBeginATaskDoesNotGetItsSession) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.session_id = "s";
  const core::QueueId first = director.Add(submission);
  ASSERT_EQ(director.AgentOf(first), "a");
  director.Accept(first);
  director.Finish(first, kNotStarted);
  director.AdvanceBeating(absl::Seconds(5));
  ASSERT_EQ(director.AgentOf(first), "b");
  director.Accept(first);
  director.Finish(first);
  // Where something of it has run it stays, whatever happens there.
  const core::QueueId second = director.Add(submission);
  for (const uint64_t dispatch : {1, 2}) {
    EXPECT_EQ(director.Token(second).dispatch.value(), dispatch);
    EXPECT_EQ(director.AgentOf(second), "b");
    director.Accept(second);
    director.Finish(second, kNotStarted);
    director.AdvanceBeating(absl::Seconds(20));
  }
}

TEST(EngineOutcomeTest, TransientAnswersReturnTheTaskToItsPlaceAfterABackoffAndCount) {
  for (const absl::Status& answer :
       {absl::UnavailableError(""), absl::InternalError(""), absl::UnknownError(""),
        absl::DataLossError(""), absl::AbortedError(""), absl::ResourceExhaustedError(""),
        absl::CancelledError(""), absl::AlreadyExistsError(""),
        absl::Status(static_cast<absl::StatusCode>(99), "")}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add();
    const core::QueueId other = director.Add();
    const core::QueueId last = director.Add();
    director.Answer(task, answer);
    EXPECT_EQ(director.Task(task).attempts, 1u) << answer;
    EXPECT_EQ(director.State(other), TaskState::kDispatching) << "it is passed over";
    EXPECT_THAT(director.Line(), ElementsAre(task, last)) << answer;
    director.Cancel(last);
    director.Finish(other);
    const absl::Duration backoff = core::BackoffAfter(task, 1, {});
    EXPECT_GE(backoff, absl::Seconds(2.5));
    EXPECT_LE(backoff, absl::Seconds(5));
    director.Advance(backoff - absl::Milliseconds(1));
    EXPECT_EQ(director.State(task), TaskState::kPending) << answer;
    director.Advance(absl::Milliseconds(1));
    EXPECT_EQ(director.State(task), TaskState::kDispatching) << answer;
  }
}

TEST(EngineOutcomeTest, RetryInfoOfTheAgentWinsOverTheBackoffUpToAQuarterOfAnHour) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Minutes(7)));
  EXPECT_EQ(director.Task(task).not_before, director.now().wall + absl::Minutes(7));
  director.AdvanceBeating(absl::Minutes(7) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Advance(absl::Milliseconds(1));
  ASSERT_EQ(director.State(task), TaskState::kDispatching);
  director.Answer(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Hours(7)));
  EXPECT_EQ(director.Task(task).not_before, director.now().wall + absl::Minutes(15));
}

TEST(EngineOutcomeTest, RejectionFailsTheTaskAtOnce) {
  for (const absl::Status& answer :
       {absl::InvalidArgumentError("no such model"), absl::NotFoundError("no such folder"),
        absl::OutOfRangeError("too long"), absl::FailedPreconditionError("no disk")}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add();
    director.Answer(task, answer);
    EXPECT_EQ(director.State(task), TaskState::kFailed) << answer;
    EXPECT_EQ(director.Reason(task), FailureReason::kAgentRejected) << answer;
    EXPECT_THAT(director.Task(task).last_error,
                ::testing::HasSubstr(std::string(answer.message())));
  }
}

TEST(EngineOutcomeTest, StaleAnswerChangesNothing) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, base::WithReason(absl::FailedPreconditionError(""), "STALE_ATTEMPT"));
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineOutcomeTest, AgentThatRefusesItsDirectorIsCordonedAndTheTaskKeepsItsPlaceUncounted) {
  for (const absl::Status& answer :
       {absl::UnauthenticatedError(""), absl::PermissionDeniedError(""),
        absl::UnimplementedError("")}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add();
    const core::QueueId other = director.Add();
    director.Answer(task, answer);
    EXPECT_THAT(director.Line(), ElementsAre(task, other)) << answer;
    EXPECT_EQ(director.Task(task).attempts, 0u);
    EXPECT_TRUE(director.engine().fleet().agents().at("a").cordoned);
    director.Connect("b");
    EXPECT_EQ(director.AgentOf(task), "b");
    EXPECT_EQ(director.State(other), TaskState::kPending);
  }
}

// ---- No answer ----

TEST(EngineOutcomeTest, UnansweredStartIsSentAgainToTheSameAgentUntilItsLeaseEnds) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Connect("b");
  const core::FenceToken token = director.Token(task);
  const absl::Duration started = director.now().monotonic;
  ASSERT_THAT(director.TakeSaid<core::StartRun>(), SizeIs(1));
  for (int copy = 1; copy <= 2; ++copy) {
    director.Advance(absl::Seconds(30) - absl::Milliseconds(1));
    EXPECT_THAT(director.TakeSaid<core::StartRun>(), IsEmpty());
    director.Advance(absl::Milliseconds(1));
    director.Beat("a", {});
    director.Beat("b", {});
    const std::vector<core::StartRun> starts = director.TakeSaid<core::StartRun>();
    ASSERT_THAT(starts, SizeIs(1));
    EXPECT_EQ(starts[0].token, token);
    EXPECT_EQ(starts[0].agent_time, started) << "a later time would outlive the lease";
  }
  director.Advance(absl::Seconds(15) - absl::Milliseconds(1));
  EXPECT_EQ(director.Token(task), token);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_EQ(director.AgentOf(task), "b") << "rather where it has not failed";
}

TEST(EngineOutcomeTest, StartGivenUpKeepsItsPlace) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.Break("a");
  director.Advance(absl::Seconds(75));
  EXPECT_THAT(director.Line(), ElementsAre(task, other));
  EXPECT_EQ(director.Task(task).attempts, 1u);
}

TEST(EngineOutcomeTest, SessionThatBreaksAfterTheStartWasWrittenEndsNothing) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  const core::QueueId task = director.Add();
  const core::FenceToken token = director.Token(task);
  director.Break("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  director.TakeSaid<core::StartRun>();
  director.Connect("a");
  const std::vector<core::StartRun> starts = director.TakeSaid<core::StartRun>();
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].token, token);
}

TEST(EngineOutcomeTest, StartThatWasNeverWrittenReturnsAfterABackoffAndCounts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.LoseStart(task);
  EXPECT_THAT(director.Line(), ElementsAre(task, other)) << "its agent is suspect";
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_EQ(director.Task(task).not_before, director.now().wall + core::BackoffAfter(task, 1, {}));
}

TEST(EngineOutcomeTest, HeartbeatThatListsAStartStandsForItsLostAnswer) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Beat("a", {director.Token(task)});
  EXPECT_EQ(director.State(task), TaskState::kWorking);
}

// ---- Ends of runs ----

TEST(EngineOutcomeTest, RunThatFailsFailsItsTask) {
  EngineFixture director;
  director.Connect("a");
  for (const auto& [result, reason, event] :
       {std::tuple(kExit1, FailureReason::kExecFailed, core::TaskEventKind::kFailed),
        std::tuple(kKilled, FailureReason::kExecFailed, core::TaskEventKind::kFailed),
        std::tuple(kTimeout, FailureReason::kTimedOut, core::TaskEventKind::kTimeout)}) {
    const core::QueueId task = director.Add();
    director.Accept(task);
    director.Finish(task, result);
    EXPECT_EQ(director.State(task), TaskState::kFailed);
    EXPECT_EQ(director.Reason(task), reason);
    EXPECT_EQ(director.Events(task).back().kind, event);
    EXPECT_EQ(director.Task(task).attempts, 1u);
    EXPECT_EQ(director.Task(task).exit_code, result.exit_code);
    EXPECT_EQ(director.Task(task).signal, result.signal);
  }
}

TEST(EngineOutcomeTest, RunThatMatchesRetryOnGoesToTheBackAfterABackoffAndCounts) {
  for (const auto& [rule, result] :
       {std::pair("exit:1", kExit1), std::pair("exit:*", kExit1),
        std::pair("signal:SIGKILL", kKilled), std::pair("timeout", kTimeout)}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add(Retried(rule));
    const core::QueueId other = director.Add();
    const core::QueueId another = director.Add();
    director.Accept(task);
    director.Finish(task, result);
    EXPECT_EQ(director.State(other), TaskState::kDispatching);
    EXPECT_THAT(director.Line(), ElementsAre(another, task)) << rule;
    EXPECT_EQ(director.Task(task).attempts, 1u) << rule;
    EXPECT_EQ(director.Task(task).not_before,
              director.now().wall + core::BackoffAfter(task, 1, {}));
  }
}

TEST(EngineOutcomeTest, RunThatDoesNotMatchRetryOnIsOver) {
  EngineFixture director;
  director.Connect("a");
  for (const auto& [rule, result] :
       {std::pair("exit:2", kExit1), std::pair("signal:SIGTERM", kKilled),
        std::pair("exit:*", kKilled), std::pair("exit:*", kTimeout),
        std::pair("timeout", kExit1)}) {
    const core::QueueId task = director.Add(Retried(rule));
    director.Accept(task);
    director.Finish(task, result);
    EXPECT_EQ(director.State(task), TaskState::kFailed) << rule;
  }
}

// ---- The last attempt ----

TEST(EngineOutcomeTest, DispatchErrorsUseUpTheAttemptsWithMaxAttempts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_EQ(director.State(task), TaskState::kDispatching) << attempt;
    director.Answer(task, absl::UnavailableError("down"));
    EXPECT_EQ(director.Task(task).attempts, attempt);
    director.AdvanceBeating(absl::Seconds(20));
  }
  EXPECT_EQ(director.Reason(task), FailureReason::kMaxAttempts);
}

TEST(EngineOutcomeTest, LastRunFailsWithItsOwnReason) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = Retried("timeout");
  submission.spec.max_attempts = 2;
  const core::QueueId task = director.Add(submission);
  director.Finish(task, kTimeout);
  director.AdvanceBeating(absl::Seconds(5));
  director.Accept(task);
  director.Finish(task, kTimeout);
  EXPECT_EQ(director.Reason(task), FailureReason::kTimedOut);
  EXPECT_EQ(director.Task(task).attempts, 2u);
}

TEST(EngineOutcomeTest, SubmitMaySetTheNumberOfAttempts) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.max_attempts = 1;
  const core::QueueId task = director.Add(submission);
  director.Answer(task, absl::UnavailableError("down"));
  EXPECT_EQ(director.Reason(task), FailureReason::kMaxAttempts);
}

TEST(EngineOutcomeTest, OfALongResultTheEndIsKept) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Finish(task, {.result = std::string(70'000, 'x') + "end"});
  EXPECT_EQ(director.Task(task).result.size(), 64u * 1024);
  EXPECT_TRUE(director.Task(task).result_truncated);
  EXPECT_EQ(director.Task(task).result.substr(64 * 1024 - 3), "end");
}

}  // namespace
}  // namespace callboard::director
