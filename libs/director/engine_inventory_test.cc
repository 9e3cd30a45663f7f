// Inventories of agents when a Session opens, and results of earlier dispatches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::FenceToken;
using core::LifecycleState;
using core::RunResult;
using core::TaskEventKind;
using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The tokens of all sent items of one kind.
template <class Item>
std::vector<FenceToken> TakeTokens(EngineFixture& director) {
  std::vector<FenceToken> tokens;
  for (const Item& item : director.TakeSent<Item>()) tokens.push_back(item.token);
  return tokens;
}

size_t Orphans(const EngineFixture& director, core::QueueId task) {
  const std::vector<core::TaskEvent> events = director.Events(task);
  return static_cast<size_t>(std::count_if(events.begin(), events.end(), [](const auto& event) {
    return event.kind == TaskEventKind::kOrphanResult;
  }));
}

// A director with a task in flight on agent `a`; it runs when `working`.
class InFlight : public EngineFixture {
 public:
  explicit InFlight(bool working, core::Submission submission = Prompt()) {
    Connect("a");
    task = Add(std::move(submission));
    if (working) AcceptStart(task);
    token = Token(task);
  }

  core::QueueId task;
  FenceToken token;
};

// ---- Inventories ----

TEST(EngineInventoryTest, RunningTaskIsAdopted) {
  for (const bool working : {false, true}) {
    for (const bool restart : {false, true}) {
      InFlight director(working);
      director.BreakSession("a");
      if (restart) director.Restart();
      director.Advance(absl::Seconds(60));
      director.Connect(EngineFixture::RunningAgent("a", {director.token}));
      EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
      EXPECT_EQ(director.Token(director.task), director.token);
      director.Advance(absl::Seconds(74));
      EXPECT_EQ(director.State(director.task), LifecycleState::kWorking) << "with a new lease";
      director.FinishRun(director.task);
      EXPECT_EQ(director.State(director.task), LifecycleState::kCompleted);
    }
  }
}

TEST(EngineInventoryTest, UnacknowledgedResultCountsInALaterEpoch) {
  for (const bool working : {false, true}) {
    InFlight director(working);
    director.Restart();
    core::SessionOpened opened = EngineFixture::IdleAgent("a");
    opened.instance_id = "a/2";
    opened.ended = {director.token};
    director.Connect(opened);
    EXPECT_EQ(director.State(director.task), LifecycleState::kWorking)
        << "until its result arrives";
    director.Send("a", core::RunEnded{director.token, {.exit_code = 0, .result = "done"}});
    EXPECT_EQ(director.State(director.task), LifecycleState::kCompleted);
    EXPECT_EQ(director.Task(director.task).result, "done");
    EXPECT_THAT(TakeTokens<core::ResultAck>(director), ElementsAre(director.token));
  }
}

TEST(EngineInventoryTest, AnnouncedResultThatNeverComesHoldsItsTaskForOneLease) {
  for (const bool working : {false, true}) {
    InFlight director(working, EngineFixture::RequeueOnLoss());
    director.BreakSession("a");
    director.Advance(absl::Seconds(60));
    core::SessionOpened opened = EngineFixture::IdleAgent("a");
    opened.ended = {director.token};
    director.Connect(opened);
    director.Advance(absl::Seconds(74));
    EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
    director.Advance(absl::Seconds(1));
    EXPECT_EQ(director.State(director.task), LifecycleState::kPending);
    EXPECT_EQ(director.Task(director.task).attempts, 1u);
  }
}

TEST(EngineInventoryTest, UnexpectedResultIsFencedOff) {
  InFlight director(/*working=*/true);
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  ASSERT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
  director.TakeSent<core::StartRun>();
  core::SessionOpened opened = EngineFixture::IdleAgent("a");
  opened.ended = {director.token};
  director.Connect(opened);
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), IsEmpty());
  director.Send("a", core::RunEnded{director.token, {}});
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token));
  EXPECT_EQ(Orphans(director, director.task), 1u);
}

TEST(EngineInventoryTest, RunOfAnotherDispatchIsFencedOff) {
  InFlight director(/*working=*/true, EngineFixture::RequeueOnLoss());
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  ASSERT_EQ(director.State(director.task), LifecycleState::kPending);
  director.Connect(EngineFixture::RunningAgent("a", {director.token}));
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token));
  EXPECT_EQ(director.State(director.task), LifecycleState::kPending) << "no task has changed";
}

TEST(EngineInventoryTest, RunMissingFromTheInventoryIsLost) {
  for (const bool restart : {false, true}) {
    InFlight director(/*working=*/true);
    if (restart) director.Restart();
    director.Connect("a");
    EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
    EXPECT_EQ(director.Task(director.task).attempts, 1u);
  }
}

TEST(EngineInventoryTest, RequeuedLostRunKeepsItsPosition) {
  InFlight director(/*working=*/true, EngineFixture::RequeueOnLoss());
  const core::QueueId later = director.Add();
  director.Call(&DirectorEngine::Pause);
  director.Connect("a");
  EXPECT_THAT(director.PendingTasks(), ElementsAre(director.task, later));
  EXPECT_EQ(director.Task(director.task).attempts, 1u);
}

TEST(EngineInventoryTest, NewInstanceWithAJournaledStartHasLostTheRun) {
  InFlight director(/*working=*/false);
  core::SessionOpened opened = EngineFixture::IdleAgent("a");
  opened.instance_id = "a/2";
  opened.lost = {director.token};
  director.Connect(opened);
  EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token))
      << "the agent can forget the token";
}

TEST(EngineInventoryTest, NewInstanceWithoutTheStartReturnsItAsAnAttempt) {
  InFlight director(/*working=*/false);
  const core::QueueId later = director.Add();
  director.Call(&DirectorEngine::Pause);
  core::SessionOpened opened = EngineFixture::IdleAgent("a");
  opened.instance_id = "a/2";
  director.Connect(opened);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(director.task, later));
  EXPECT_EQ(director.Task(director.task).attempts, 1u);
}

TEST(EngineInventoryTest, StartLostByADirectorRestartIsNoAttempt) {
  InFlight director(/*working=*/false);
  const core::QueueId later = director.Add();
  director.Call(&DirectorEngine::Pause);
  director.Restart();
  director.Connect("a");
  EXPECT_THAT(director.PendingTasks(), ElementsAre(director.task, later));
  EXPECT_EQ(director.Task(director.task).attempts, 0u);
}

TEST(EngineInventoryTest, SessionWithoutAStartRepeatsItsFirstCopy) {
  InFlight director(/*working=*/false);
  const std::vector<core::StartRun> first = director.TakeSent<core::StartRun>();
  ASSERT_THAT(first, SizeIs(1));
  for (int session = 1; session < 25; ++session) {
    director.Advance(absl::Seconds(3));
    director.Connect("a");
    const std::vector<core::StartRun> copies = director.TakeSent<core::StartRun>();
    ASSERT_THAT(copies, SizeIs(1));
    EXPECT_EQ(copies[0].token, director.token);
    EXPECT_EQ(copies[0].agent_time, first[0].agent_time);
  }
  EXPECT_EQ(director.State(director.task), LifecycleState::kDispatching);
  director.Advance(absl::Seconds(3));
  EXPECT_EQ(director.State(director.task), LifecycleState::kPending);
  EXPECT_EQ(director.Task(director.task).attempts, 1u);
}

TEST(EngineInventoryTest, AnswerDoesNotMoveTheLease) {
  InFlight director(/*working=*/false);
  director.Advance(absl::Seconds(40));
  director.AcceptStart(director.task);
  director.Advance(absl::Seconds(35));
  EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
}

TEST(EngineInventoryTest, StartIsNotRepeatedWithoutASession) {
  InFlight director(/*working=*/false);
  director.Restart();
  director.Advance(absl::Seconds(74));
  EXPECT_THAT(director.TakeSent<core::StartRun>(), IsEmpty());
  EXPECT_EQ(director.State(director.task), LifecycleState::kDispatching);
}

// ---- Tokens ----

TEST(EngineInventoryTest, TokenOfAnotherEpochDoesNotMatch) {
  InFlight director(/*working=*/true);
  FenceToken forged = director.token;
  ++forged.director_epoch;
  director.TakeSent<core::StartRun>();
  director.Send("a", core::RunEnded{forged, {}});
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(forged));
  EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
  director.SendHeartbeat("a", {forged});
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(forged));
}

TEST(EngineInventoryTest, ResultOfAnotherAgentIsFencedOff) {
  InFlight director(/*working=*/true);
  director.Connect("b");
  director.Send("b", core::RunEnded{director.token, {}});
  EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token));
}

TEST(EngineInventoryTest, LateAnswerToAnEndedDispatchIsFencedOff) {
  InFlight director(/*working=*/false);
  director.AnswerStart(director.task, absl::UnavailableError(""));
  director.TakeSent<core::StartRun>();
  director.Send("a", core::StartAnswer{director.token, absl::OkStatus()});
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token));
  EXPECT_EQ(director.State(director.task), LifecycleState::kPending);
}

TEST(EngineInventoryTest, NothingStartsBeforeAllItemsOfAMessageAreHandled) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId first = director.Add();
  const core::QueueId second = director.Add();
  director.AcceptStart(first);
  director.SendTogether(
      "a", {core::RunEnded{director.Token(first), {}},
            core::LoadReport{{{"default", {.slots = 1, .used = 0}}}, /*leaving=*/true}});
  EXPECT_EQ(director.State(first), LifecycleState::kCompleted);
  EXPECT_EQ(director.State(second), LifecycleState::kPending);
}

TEST(EngineInventoryTest, MessagesOfAReplacedSessionAreIgnored) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Connect("a");
  director.engine().OnMessages(core::AgentSessionId(1),
                               {core::StartAnswer{director.Token(task), absl::OkStatus()}},
                               director.now());
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  director.engine().OnSessionClosed(core::AgentSessionId(1), absl::UnavailableError(""),
                                    director.now());
  EXPECT_TRUE(director.engine().fleet().agents().at("a").is_connected());
}

// ---- Repeated and late results ----

TEST(EngineInventoryTest, RepeatedResultIsAcknowledgedAgainAfterARestart) {
  InFlight director(/*working=*/true);
  director.FinishRun(director.task, {.result = "first"});
  for (int restart = 0; restart < 2; ++restart) {
    director.TakeSent<core::StartRun>();
    director.Send("a", core::RunEnded{director.token, {.result = "second"}});
    EXPECT_THAT(TakeTokens<core::ResultAck>(director), ElementsAre(director.token));
    EXPECT_EQ(director.Task(director.task).result, "first");
    EXPECT_EQ(Orphans(director, director.task), 0u);
    director.Restart();
    director.Connect("a");
  }
}

TEST(EngineInventoryTest, RepeatedResultOfAnEarlierAttemptIsAcknowledgedAgain) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.retry_on = {*core::ParseRetryRule("exit:*")};
  InFlight director(/*working=*/true, submission);
  const RunResult failed = {.end = RunResult::End::kFailed, .exit_code = 1};
  director.FinishRun(director.task, failed);
  director.AdvanceWithHeartbeats(absl::Seconds(5));
  director.AcceptStart(director.task);
  director.FinishRun(director.task);
  ASSERT_EQ(director.State(director.task), LifecycleState::kCompleted);
  director.TakeSent<core::StartRun>();
  director.Send("a", core::RunEnded{director.token, failed});
  EXPECT_THAT(TakeTokens<core::ResultAck>(director), ElementsAre(director.token));
  EXPECT_EQ(Orphans(director, director.task), 0u);
}

TEST(EngineInventoryTest, OrphanResultIsRecordedOnceAndChangesNothing) {
  InFlight director(/*working=*/true);
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  ASSERT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
  director.Connect("a");
  for (int repeat = 0; repeat < 2; ++repeat) {
    director.TakeSent<core::StartRun>();
    director.Send("a", core::RunEnded{director.token, {}});
    EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token));
    EXPECT_EQ(Orphans(director, director.task), 1u);
    EXPECT_EQ(director.Events(director.task).back().agent, "a");
    EXPECT_EQ(director.Events(director.task).back().dispatch, director.token.dispatch);
    EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
    EXPECT_EQ(director.TaskStates(), director.ReloadedTaskStates());
    director.Restart();
    director.Connect("a");
  }
}

TEST(EngineInventoryTest, OrphanOfARequeuedTaskDoesNotAffectItsNewDispatch) {
  InFlight director(/*working=*/true, EngineFixture::RequeueOnLoss());
  director.BreakSession("a");
  director.Connect("b");
  director.AdvanceWithHeartbeats(absl::Seconds(75));
  ASSERT_EQ(director.AgentOf(director.task), "b");
  const FenceToken current = director.Token(director.task);
  director.Connect("a");
  director.Send("a", core::RunEnded{director.token, {}});
  EXPECT_EQ(director.State(director.task), LifecycleState::kDispatching);
  EXPECT_EQ(director.Token(director.task), current);
  EXPECT_EQ(Orphans(director, director.task), 1u);
}

TEST(EngineInventoryTest, ResultOfAForgottenTaskIsFencedOffAndCounted) {
  EngineFixture director({.retention = {.count = 0}});
  director.Connect("a");
  const core::QueueId task = director.Add();
  const FenceToken token = director.Token(task);
  director.FinishRun(task);
  director.TakeSent<core::StartRun>();
  const size_t records = director.records_written();
  director.Send("a", core::RunEnded{token, {}});
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), SizeIs(1));
  EXPECT_EQ(director.records_written(), records);
  const OrphanResult orphan = {.token = token, .agent = "a"};
  EXPECT_THAT(director.orphans(), ElementsAre(orphan));
}

TEST(EngineInventoryTest, UnknownRunIsFencedOffAndReported) {
  // The state after a loss of the data folder.
  EngineFixture director;
  const FenceToken token = {core::QueueId(core::Ulid(1, 2)), core::DispatchNumber(1), 1};
  director.Connect(EngineFixture::RunningAgent("a", {token}));
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(token));
  const OrphanResult orphan = {.token = token, .agent = "a", .is_run = true};
  EXPECT_THAT(director.orphans(), ElementsAre(orphan));
}

TEST(EngineInventoryTest, OrphanWithoutARecordedDispatchIsOnlyCounted) {
  // The state after a restore of an older store.
  InFlight director(/*working=*/true);
  const core::TraceId trace = director.engine().tasks().Find(director.task)->task.trace.trace_id;
  FenceToken later = director.token;
  later.dispatch = core::DispatchNumber(7);
  director.Send("a", core::RunEnded{later, {}});
  FenceToken elsewhere = director.token;
  elsewhere.director_epoch += 1;
  director.Send("a", core::RunEnded{elsewhere, {.end = RunResult::End::kCancelled}});
  EXPECT_THAT(director.orphans(),
              ElementsAre(OrphanResult{later, "a", trace}, OrphanResult{elsewhere, "a", trace}));
  EXPECT_EQ(Orphans(director, director.task), 0u);
  EXPECT_EQ(director.State(director.task), LifecycleState::kWorking);
}

TEST(EngineInventoryTest, CancelledRunOfACancelledTaskIsNoOrphan) {
  InFlight director(/*working=*/false);
  director.Cancel(director.task);
  director.Send("a", core::StartAnswer{director.token, absl::ResourceExhaustedError("busy")});
  ASSERT_EQ(director.State(director.task), LifecycleState::kCancelled);
  director.Send("a", core::RunEnded{director.token, {.end = RunResult::End::kCancelled}});
  EXPECT_THAT(TakeTokens<core::FenceOff>(director), ElementsAre(director.token));
  EXPECT_THAT(director.orphans(), IsEmpty());
  EXPECT_EQ(Orphans(director, director.task), 0u);
}

}  // namespace
}  // namespace callboard::director
