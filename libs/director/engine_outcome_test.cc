// The outcomes of a dispatch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/core/dispatch_rules.h"
#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::LifecycleState;
using core::RunResult;
using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission WithRetryOn(const std::string& rule) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.retry_on = {*core::ParseRetryRule(rule)};
  return submission;
}

const RunResult kExit1 = {.end = RunResult::End::kFailed, .exit_code = 1};
const RunResult kKilled = {.end = RunResult::End::kFailed, .signal = "SIGKILL"};
const RunResult kNotStarted = {.end = RunResult::End::kNotStarted, .error = "no space left"};
const RunResult kTimeout = {.end = RunResult::End::kTimedOut};

// ---- Busy ----

TEST(EngineOutcomeTest, BusyAnswerMovesTheTaskToTheBackAndIsNoAttempt) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.AnswerBusy(task);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(other, task));
  EXPECT_EQ(director.Task(task).attempts, 0u);
  EXPECT_EQ(director.Task(task).busy_rejections, 1u);
}

TEST(EngineOutcomeTest, BusyAnswerOfAFullAgentHasNoFault) {
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
  director.AnswerBusy(task);
  EXPECT_EQ(fault(), core::Fault::kAgent) << "it had reported a free slot";
  director.SendHeartbeat("a", {});
  director.ReportLoad("a", /*used=*/0);
  ASSERT_EQ(director.State(task), LifecycleState::kDispatching);
  // Something else took the slot while the start was on its way.
  director.ReportLoad("a", /*used=*/1);
  director.AnswerBusy(task);
  EXPECT_EQ(fault(), std::nullopt);
}

TEST(EngineOutcomeTest, FailedRunWithoutAnExitCodeIsExplained) {
  EngineFixture director;
  director.Connect("a");
  const auto error = [&director](const core::RunResult& result) {
    const core::QueueId task = director.Add();
    director.FinishRun(task, result);
    return director.Task(task).last_error;
  };
  EXPECT_EQ(error({.end = core::RunResult::End::kFailed}), "failed without an exit code");
  EXPECT_EQ(error({.end = core::RunResult::End::kFailed, .exit_code = 3}), "exited with 3");
}

TEST(EngineOutcomeTest, BusyLaneIsFullUntilTheAgentsNextLoadReport) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["build"] = {.slots = 1, .used = 0};
  director.Connect(agent);
  const core::QueueId task = director.Add();
  director.AnswerBusy(task);
  director.SendHeartbeat("a", {});
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  core::Submission build = EngineFixture::Prompt();
  build.spec.terms.lane = "build";
  EXPECT_EQ(director.State(director.Add(build)), LifecycleState::kDispatching)
      << "only the other lane is busy";
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  EXPECT_EQ(director.Task(task).dispatch, core::DispatchNumber(2));
}

TEST(EngineOutcomeTest, TaskKeepsItsPositionFromTheFifthBusyAnswerOn) {
  EngineFixture director({.queue = {.max_size = 0}});
  director.Connect("a");
  const core::QueueId task = director.Add();
  core::Submission unplaceable = EngineFixture::Prompt();
  unplaceable.spec.terms.lane = "nowhere";
  core::QueueId last = director.Add(unplaceable);
  for (int busy_answer = 1; busy_answer <= 7; ++busy_answer) {
    director.AnswerBusy(task);
    EXPECT_EQ(director.PendingTasks().back(), busy_answer < 5 ? task : last) << busy_answer;
    last = director.Add(unplaceable);
    director.SendHeartbeat("a", {});
    director.ReportLoad("a", /*used=*/0);
    ASSERT_EQ(director.State(task), LifecycleState::kDispatching) << busy_answer;
  }
  EXPECT_EQ(director.Task(task).busy_rejections, 7u);
}

TEST(EngineOutcomeTest, AfterThreeBusyAnswersOnlyAHeartbeatReportCounts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  for (int busy_answer = 1; busy_answer <= 2; ++busy_answer) {
    director.AnswerBusy(task);
    director.ReportLoad("a", /*used=*/0);
    ASSERT_EQ(director.State(task), LifecycleState::kDispatching) << busy_answer;
  }
  director.AnswerBusy(task);
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.SendHeartbeat("a", {});
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineOutcomeTest, AcceptedStartResetsTheBusyAnswers) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId first = director.Add();
  for (int busy_answer = 1; busy_answer <= 2; ++busy_answer) {
    director.AnswerBusy(first);
    director.ReportLoad("a", /*used=*/0);
  }
  director.AcceptStart(first);
  director.FinishRun(first);
  const core::QueueId second = director.Add();
  director.AnswerBusy(second);
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(second), LifecycleState::kDispatching);
}

// ---- Other answers ----

TEST(EngineOutcomeTest, RunThatCouldNotStartIsRetriedAfterABackoff) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.AnswerStart(task, absl::OkStatus());
  const core::FenceToken token = director.Token(task);
  director.FinishRun(task, kNotStarted);
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(task))
      << "first, but skipped during the backoff";
  EXPECT_EQ(director.State(other), LifecycleState::kDispatching);
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_EQ(director.Task(task).last_error, "no space left");
  // The agent has not received the acknowledgement.
  director.Send("a", core::RunEnded{token, kNotStarted});
  EXPECT_EQ(director.Task(task).attempts, 1u);
  director.FinishRun(other);
  director.Advance(core::BackoffAfter(task, 1, {}));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineOutcomeTest, RunThatNeverStartedFailsWithMaxAttempts) {
  EngineFixture director({.queue = {.max_attempts = 1}});
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::OkStatus());
  director.FinishRun(task, kNotStarted);
  EXPECT_EQ(director.State(task), LifecycleState::kFailed);
  EXPECT_EQ(director.Task(task).reason, FailureReason::kMaxAttempts);
}

TEST(EngineOutcomeTest, AgentThatCouldNotStartATaskDoesNotGetItsSession) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.session_id = "s";
  const core::QueueId first = director.Add(submission);
  ASSERT_EQ(director.AgentOf(first), "a");
  director.AcceptStart(first);
  director.FinishRun(first, kNotStarted);
  director.AdvanceWithHeartbeats(absl::Seconds(5));
  ASSERT_EQ(director.AgentOf(first), "b");
  director.AcceptStart(first);
  director.FinishRun(first);
  // A task that may have run on an agent stays there.
  const core::QueueId second = director.Add(submission);
  for (const uint64_t dispatch : {1, 2}) {
    EXPECT_EQ(director.Token(second).dispatch.value(), dispatch);
    EXPECT_EQ(director.AgentOf(second), "b");
    director.AcceptStart(second);
    director.FinishRun(second, kNotStarted);
    director.AdvanceWithHeartbeats(absl::Seconds(20));
  }
}

TEST(EngineOutcomeTest, TransientErrorIsRetriedAfterABackoff) {
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
    director.AnswerStart(task, answer);
    EXPECT_EQ(director.Task(task).attempts, 1u) << answer;
    EXPECT_EQ(director.State(other), LifecycleState::kDispatching)
        << "the task in backoff is skipped";
    EXPECT_THAT(director.PendingTasks(), ElementsAre(task, last)) << answer;
    director.Cancel(last);
    director.FinishRun(other);
    const absl::Duration backoff = core::BackoffAfter(task, 1, {});
    EXPECT_GE(backoff, absl::Seconds(2.5));
    EXPECT_LE(backoff, absl::Seconds(5));
    director.Advance(backoff - absl::Milliseconds(1));
    EXPECT_EQ(director.State(task), LifecycleState::kPending) << answer;
    director.Advance(absl::Milliseconds(1));
    EXPECT_EQ(director.State(task), LifecycleState::kDispatching) << answer;
  }
}

TEST(EngineOutcomeTest, RetryInfoOfTheAgentReplacesTheBackoff) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Minutes(7)));
  EXPECT_EQ(director.Task(task).not_before, director.now().wall + absl::Minutes(7));
  director.AdvanceWithHeartbeats(absl::Minutes(7) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Advance(absl::Milliseconds(1));
  ASSERT_EQ(director.State(task), LifecycleState::kDispatching);
  director.AnswerStart(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Hours(7)));
  EXPECT_EQ(director.Task(task).not_before, director.now().wall + absl::Minutes(15));
}

TEST(EngineOutcomeTest, RejectionFailsTheTaskImmediately) {
  for (const absl::Status& answer :
       {absl::InvalidArgumentError("no such model"), absl::NotFoundError("no such folder"),
        absl::OutOfRangeError("too long"), absl::FailedPreconditionError("no disk")}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add();
    director.AnswerStart(task, answer);
    EXPECT_EQ(director.State(task), LifecycleState::kFailed) << answer;
    EXPECT_EQ(director.Reason(task), FailureReason::kAgentRejected) << answer;
    EXPECT_THAT(director.Task(task).last_error,
                ::testing::HasSubstr(std::string(answer.message())));
  }
}

TEST(EngineOutcomeTest, StaleAnswerChangesNothing) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, base::WithReason(absl::FailedPreconditionError(""), "STALE_ATTEMPT"));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineOutcomeTest, AgentThatRejectsItsDirectorIsCordoned) {
  for (const absl::Status& answer :
       {absl::UnauthenticatedError(""), absl::PermissionDeniedError(""),
        absl::UnimplementedError("")}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add();
    const core::QueueId other = director.Add();
    director.AnswerStart(task, answer);
    EXPECT_THAT(director.PendingTasks(), ElementsAre(task, other)) << answer;
    EXPECT_EQ(director.Task(task).attempts, 0u);
    EXPECT_TRUE(director.engine().fleet().agents().at("a").cordoned);
    director.Connect("b");
    EXPECT_EQ(director.AgentOf(task), "b");
    EXPECT_EQ(director.State(other), LifecycleState::kPending);
  }
}

// ---- No answer ----

TEST(EngineOutcomeTest, UnansweredStartIsRepeatedUntilItsLeaseEnds) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Connect("b");
  const core::FenceToken token = director.Token(task);
  const absl::Duration started = director.now().monotonic;
  ASSERT_THAT(director.TakeSent<core::StartRun>(), SizeIs(1));
  for (int copy = 1; copy <= 2; ++copy) {
    director.Advance(absl::Seconds(30) - absl::Milliseconds(1));
    EXPECT_THAT(director.TakeSent<core::StartRun>(), IsEmpty());
    director.Advance(absl::Milliseconds(1));
    director.SendHeartbeat("a", {});
    director.SendHeartbeat("b", {});
    const std::vector<core::StartRun> starts = director.TakeSent<core::StartRun>();
    ASSERT_THAT(starts, SizeIs(1));
    EXPECT_EQ(starts[0].token, token);
    EXPECT_EQ(starts[0].agent_time, started) << "a later time would outlive the lease";
  }
  director.Advance(absl::Seconds(15) - absl::Milliseconds(1));
  EXPECT_EQ(director.Token(task), token);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_EQ(director.AgentOf(task), "b") << "an agent that it has not failed on is preferred";
}

TEST(EngineOutcomeTest, AbandonedStartKeepsItsPosition) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  EXPECT_THAT(director.PendingTasks(), ElementsAre(task, other));
  EXPECT_EQ(director.Task(task).attempts, 1u);
}

TEST(EngineOutcomeTest, SessionClosedAfterTheStartWasWrittenChangesNothing) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  const core::QueueId task = director.Add();
  const core::FenceToken token = director.Token(task);
  director.BreakSession("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  director.TakeSent<core::StartRun>();
  director.Connect("a");
  const std::vector<core::StartRun> starts = director.TakeSent<core::StartRun>();
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].token, token);
}

TEST(EngineOutcomeTest, UnwrittenStartIsRetriedAfterABackoff) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.FailStartWrite(task);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(task, other)) << "its agent is suspect";
  EXPECT_EQ(director.Task(task).attempts, 1u);
  EXPECT_EQ(director.Task(task).not_before, director.now().wall + core::BackoffAfter(task, 1, {}));
}

TEST(EngineOutcomeTest, HeartbeatReplacesALostStartAnswer) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.SendHeartbeat("a", {director.Token(task)});
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
}

// ---- Ends of runs ----

TEST(EngineOutcomeTest, FailedRunFailsItsTask) {
  EngineFixture director;
  director.Connect("a");
  for (const auto& [result, reason, event] :
       {std::tuple(kExit1, FailureReason::kExecFailed, core::TaskEventKind::kFailed),
        std::tuple(kKilled, FailureReason::kExecFailed, core::TaskEventKind::kFailed),
        std::tuple(kTimeout, FailureReason::kTimedOut, core::TaskEventKind::kTimeout)}) {
    const core::QueueId task = director.Add();
    director.AcceptStart(task);
    director.FinishRun(task, result);
    EXPECT_EQ(director.State(task), LifecycleState::kFailed);
    EXPECT_EQ(director.Reason(task), reason);
    EXPECT_EQ(director.Events(task).back().kind, event);
    EXPECT_EQ(director.Task(task).attempts, 1u);
    EXPECT_EQ(director.Task(task).exit_code, result.exit_code);
    EXPECT_EQ(director.Task(task).signal, result.signal);
  }
}

TEST(EngineOutcomeTest, RunThatMatchesRetryOnIsRetriedAtTheBack) {
  for (const auto& [rule, result] :
       {std::pair("exit:1", kExit1), std::pair("exit:*", kExit1),
        std::pair("signal:SIGKILL", kKilled), std::pair("timeout", kTimeout)}) {
    EngineFixture director;
    director.Connect("a");
    const core::QueueId task = director.Add(WithRetryOn(rule));
    const core::QueueId other = director.Add();
    const core::QueueId another = director.Add();
    director.AcceptStart(task);
    director.FinishRun(task, result);
    EXPECT_EQ(director.State(other), LifecycleState::kDispatching);
    EXPECT_THAT(director.PendingTasks(), ElementsAre(another, task)) << rule;
    EXPECT_EQ(director.Task(task).attempts, 1u) << rule;
    EXPECT_EQ(director.Task(task).not_before,
              director.now().wall + core::BackoffAfter(task, 1, {}));
  }
}

TEST(EngineOutcomeTest, RunThatDoesNotMatchRetryOnFails) {
  EngineFixture director;
  director.Connect("a");
  for (const auto& [rule, result] :
       {std::pair("exit:2", kExit1), std::pair("signal:SIGTERM", kKilled),
        std::pair("exit:*", kKilled), std::pair("exit:*", kTimeout),
        std::pair("timeout", kExit1)}) {
    const core::QueueId task = director.Add(WithRetryOn(rule));
    director.AcceptStart(task);
    director.FinishRun(task, result);
    EXPECT_EQ(director.State(task), LifecycleState::kFailed) << rule;
  }
}

// ---- The last attempt ----

TEST(EngineOutcomeTest, DispatchErrorsCountAsAttempts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_EQ(director.State(task), LifecycleState::kDispatching) << attempt;
    director.AnswerStart(task, absl::UnavailableError("down"));
    EXPECT_EQ(director.Task(task).attempts, attempt);
    director.AdvanceWithHeartbeats(absl::Seconds(20));
  }
  EXPECT_EQ(director.Reason(task), FailureReason::kMaxAttempts);
}

TEST(EngineOutcomeTest, LastRunFailsWithItsOwnReason) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = WithRetryOn("timeout");
  submission.spec.terms.max_attempts = 2;
  const core::QueueId task = director.Add(submission);
  director.FinishRun(task, kTimeout);
  director.AdvanceWithHeartbeats(absl::Seconds(5));
  director.AcceptStart(task);
  director.FinishRun(task, kTimeout);
  EXPECT_EQ(director.Reason(task), FailureReason::kTimedOut);
  EXPECT_EQ(director.Task(task).attempts, 2u);
}

TEST(EngineOutcomeTest, SubmitMaySetMaxAttempts) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.max_attempts = 1;
  const core::QueueId task = director.Add(submission);
  director.AnswerStart(task, absl::UnavailableError("down"));
  EXPECT_EQ(director.Reason(task), FailureReason::kMaxAttempts);
}

TEST(EngineOutcomeTest, LongResultKeepsItsEnd) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.FinishRun(task, {.result = std::string(70'000, 'x') + "end"});
  EXPECT_EQ(director.Task(task).result.size(), 64u * 1024);
  EXPECT_TRUE(director.Task(task).result_truncated);
  EXPECT_EQ(director.Task(task).result.substr(64 * 1024 - 3), "end");
}

}  // namespace
}  // namespace callboard::director
