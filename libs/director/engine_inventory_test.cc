// What an agent knows when its Session opens, and results from elsewhere in time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::FenceToken;
using core::RunResult;
using core::TaskEventKind;
using core::TaskState;
using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The tokens of everything that was said of one kind.
template <class Item>
std::vector<FenceToken> TakeTokens(EngineFixture& director) {
  std::vector<FenceToken> tokens;
  for (const Item& item : director.TakeSaid<Item>()) tokens.push_back(item.token);
  return tokens;
}

size_t Orphans(const EngineFixture& director, core::QueueId task) {
  const std::vector<core::TaskEvent> events = director.Events(task);
  return static_cast<size_t>(std::count_if(events.begin(), events.end(), [](const auto& event) {
    return event.kind == TaskEventKind::kOrphanResult;
  }));
}

// A director whose task agent `a` was given, and runs when `working`.
class InFlight : public EngineFixture {
 public:
  explicit InFlight(bool working, core::Submission submission = Prompt()) {
    Connect("a");
    task = Add(std::move(submission));
    if (working) Accept(task);
    token = Token(task);
  }

  core::QueueId task;
  FenceToken token;
};

// ---- Inventories ----

TEST(EngineInventoryTest, WhatTheAgentRunsIsAdopted) {
  for (const bool working : {false, true}) {
    for (const bool restart : {false, true}) {
      InFlight director(working);
      director.Break("a");
      if (restart) director.Restart();
      director.Advance(absl::Seconds(60));
      director.Connect(EngineFixture::Running("a", {director.token}));
      EXPECT_EQ(director.State(director.task), TaskState::kWorking);
      EXPECT_EQ(director.Token(director.task), director.token);
      director.Advance(absl::Seconds(74));
      EXPECT_EQ(director.State(director.task), TaskState::kWorking) << "with a lease from then on";
      director.Finish(director.task);
      EXPECT_EQ(director.State(director.task), TaskState::kCompleted);
    }
  }
}

TEST(EngineInventoryTest, UnacknowledgedResultFinishesItsTaskInALaterEpoch) {
  for (const bool working : {false, true}) {
    InFlight director(working);
    director.Restart();
    core::AgentOpened opened = EngineFixture::Knowing("a");
    opened.instance_id = "a/2";
    opened.ended = {director.token};
    director.Connect(opened);
    EXPECT_EQ(director.State(director.task), TaskState::kWorking) << "until its result is heard";
    director.Say("a", core::RunEnded{director.token, {.exit_code = 0, .result = "done"}});
    EXPECT_EQ(director.State(director.task), TaskState::kCompleted);
    EXPECT_EQ(director.Task(director.task).result, "done");
    EXPECT_THAT(TakeTokens<core::ResultAcknowledged>(director), ElementsAre(director.token));
  }
}

TEST(EngineInventoryTest, ResultThatIsNamedAndNeverComesHoldsItsTaskForALeaseAndNoLonger) {
  for (const bool working : {false, true}) {
    InFlight director(working, EngineFixture::Requeued());
    director.Break("a");
    director.Advance(absl::Seconds(60));
    core::AgentOpened opened = EngineFixture::Knowing("a");
    opened.ended = {director.token};
    director.Connect(opened);
    director.Advance(absl::Seconds(74));
    EXPECT_EQ(director.State(director.task), TaskState::kWorking);
    director.Advance(absl::Seconds(1));
    EXPECT_EQ(director.State(director.task), TaskState::kPending);
    EXPECT_EQ(director.Task(director.task).attempts, 1u);
  }
}

TEST(EngineInventoryTest, ResultThatNobodyWaitsForIsFencedOffWhenItComes) {
  InFlight director(/*working=*/true);
  director.Break("a");
  director.Advance(absl::Seconds(75));
  ASSERT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
  director.TakeSaid<core::StartRun>();
  core::AgentOpened opened = EngineFixture::Knowing("a");
  opened.ended = {director.token};
  director.Connect(opened);
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), IsEmpty());
  director.Say("a", core::RunEnded{director.token, {}});
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token));
  EXPECT_EQ(Orphans(director, director.task), 1u);
}

TEST(EngineInventoryTest, WhatIsNotTheAgentsToRunIsFencedOff) {
  InFlight director(/*working=*/true, EngineFixture::Requeued());
  director.Break("a");
  director.Advance(absl::Seconds(75));
  ASSERT_EQ(director.State(director.task), TaskState::kPending);
  director.Connect(EngineFixture::Running("a", {director.token}));
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token));
  EXPECT_EQ(director.State(director.task), TaskState::kPending) << "and changes no task";
}

TEST(EngineInventoryTest, RunThatTheAgentNoLongerHasIsLost) {
  for (const bool restart : {false, true}) {
    InFlight director(/*working=*/true);
    if (restart) director.Restart();
    director.Connect("a");
    EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
    EXPECT_EQ(director.Task(director.task).attempts, 1u);
  }
}

TEST(EngineInventoryTest, LostRunThatMayBeRequeuedKeepsItsPlace) {
  InFlight director(/*working=*/true, EngineFixture::Requeued());
  const core::QueueId later = director.Add();
  director.Tell(&DirectorEngine::Pause);
  director.Connect("a");
  EXPECT_THAT(director.Line(), ElementsAre(director.task, later));
  EXPECT_EQ(director.Task(director.task).attempts, 1u);
}

TEST(EngineInventoryTest, NewInstanceThatJournaledTheStartHasLostTheRun) {
  InFlight director(/*working=*/false);
  core::AgentOpened opened = EngineFixture::Knowing("a");
  opened.instance_id = "a/2";
  opened.lost = {director.token};
  director.Connect(opened);
  EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token))
      << "so that it forgets the token";
}

TEST(EngineInventoryTest, NewInstanceThatNeverSawTheStartReturnsItCounted) {
  InFlight director(/*working=*/false);
  const core::QueueId later = director.Add();
  director.Tell(&DirectorEngine::Pause);
  core::AgentOpened opened = EngineFixture::Knowing("a");
  opened.instance_id = "a/2";
  director.Connect(opened);
  EXPECT_THAT(director.Line(), ElementsAre(director.task, later));
  EXPECT_EQ(director.Task(director.task).attempts, 1u);
}

TEST(EngineInventoryTest, StartThatARestartSwallowedReturnsUncounted) {
  InFlight director(/*working=*/false);
  const core::QueueId later = director.Add();
  director.Tell(&DirectorEngine::Pause);
  director.Restart();
  director.Connect("a");
  EXPECT_THAT(director.Line(), ElementsAre(director.task, later));
  EXPECT_EQ(director.Task(director.task).attempts, 0u);
}

TEST(EngineInventoryTest, SessionThatDoesNotListAStartRepeatsItsFirstCopyAndRenewsNothing) {
  InFlight director(/*working=*/false);
  const std::vector<core::StartRun> first = director.TakeSaid<core::StartRun>();
  ASSERT_THAT(first, SizeIs(1));
  for (int session = 1; session < 25; ++session) {
    director.Advance(absl::Seconds(3));
    director.Connect("a");
    const std::vector<core::StartRun> copies = director.TakeSaid<core::StartRun>();
    ASSERT_THAT(copies, SizeIs(1));
    EXPECT_EQ(copies[0].token, director.token);
    EXPECT_EQ(copies[0].agent_time, first[0].agent_time);
  }
  EXPECT_EQ(director.State(director.task), TaskState::kDispatching);
  director.Advance(absl::Seconds(3));
  EXPECT_EQ(director.State(director.task), TaskState::kPending);
  EXPECT_EQ(director.Task(director.task).attempts, 1u);
}

TEST(EngineInventoryTest, AnswerDoesNotMoveTheLease) {
  InFlight director(/*working=*/false);
  director.Advance(absl::Seconds(40));
  director.Accept(director.task);
  director.Advance(absl::Seconds(35));
  EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
}

TEST(EngineInventoryTest, NothingIsSentAgainToAnAgentThatHasNotOpenedYet) {
  InFlight director(/*working=*/false);
  director.Restart();
  director.Advance(absl::Seconds(74));
  EXPECT_THAT(director.TakeSaid<core::StartRun>(), IsEmpty());
  EXPECT_EQ(director.State(director.task), TaskState::kDispatching);
}

// ---- Tokens ----

TEST(EngineInventoryTest, TokenOfAnotherEpochIsNotTheDispatchs) {
  InFlight director(/*working=*/true);
  FenceToken forged = director.token;
  ++forged.director_epoch;
  director.TakeSaid<core::StartRun>();
  director.Say("a", core::RunEnded{forged, {}});
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(forged));
  EXPECT_EQ(director.State(director.task), TaskState::kWorking);
  director.Beat("a", {forged});
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(forged));
}

TEST(EngineInventoryTest, ResultOfAnotherAgentIsFencedOff) {
  InFlight director(/*working=*/true);
  director.Connect("b");
  director.Say("b", core::RunEnded{director.token, {}});
  EXPECT_EQ(director.State(director.task), TaskState::kWorking);
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token));
}

TEST(EngineInventoryTest, LateAnswerToAnEndedDispatchIsFencedOff) {
  InFlight director(/*working=*/false);
  director.Answer(director.task, absl::UnavailableError(""));
  director.TakeSaid<core::StartRun>();
  director.Say("a", core::StartAnswered{director.token, absl::OkStatus()});
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token));
  EXPECT_EQ(director.State(director.task), TaskState::kPending);
}

TEST(EngineInventoryTest, NothingStartsBeforeAMessageIsHeardToItsEnd) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId first = director.Add();
  const core::QueueId second = director.Add();
  director.Accept(first);
  director.SayTogether(
      "a", {core::RunEnded{director.Token(first), {}},
            core::LoadReported{{{"default", {.slots = 1, .used = 0}}}, /*leaving=*/true}});
  EXPECT_EQ(director.State(first), TaskState::kCompleted);
  EXPECT_EQ(director.State(second), TaskState::kPending);
}

TEST(EngineInventoryTest, WordsOfAReplacedSessionAreIgnored) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Connect("a");
  director.engine().OnItems(core::SessionId(1),
                            {core::StartAnswered{director.Token(task), absl::OkStatus()}},
                            director.now());
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  director.engine().OnBroken(core::SessionId(1), absl::UnavailableError(""), director.now());
  EXPECT_TRUE(director.engine().fleet().agents().at("a").is_connected());
}

// ---- Results that come again or too late ----

TEST(EngineInventoryTest, RepeatedResultIsAcknowledgedAgainAlsoAfterARestart) {
  InFlight director(/*working=*/true);
  director.Finish(director.task, {.result = "first"});
  for (int restart = 0; restart < 2; ++restart) {
    director.TakeSaid<core::StartRun>();
    director.Say("a", core::RunEnded{director.token, {.result = "second"}});
    EXPECT_THAT(TakeTokens<core::ResultAcknowledged>(director), ElementsAre(director.token));
    EXPECT_EQ(director.Task(director.task).result, "first");
    EXPECT_EQ(Orphans(director, director.task), 0u);
    director.Restart();
    director.Connect("a");
  }
}

TEST(EngineInventoryTest, RepeatedResultOfAnEarlierAttemptIsAcknowledgedAgain) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.retry_on = {*core::ParseRetryRule("exit:*")};
  InFlight director(/*working=*/true, submission);
  const RunResult failed = {.end = RunResult::End::kFailed, .exit_code = 1};
  director.Finish(director.task, failed);
  director.AdvanceBeating(absl::Seconds(5));
  director.Accept(director.task);
  director.Finish(director.task);
  ASSERT_EQ(director.State(director.task), TaskState::kCompleted);
  director.TakeSaid<core::StartRun>();
  director.Say("a", core::RunEnded{director.token, failed});
  EXPECT_THAT(TakeTokens<core::ResultAcknowledged>(director), ElementsAre(director.token));
  EXPECT_EQ(Orphans(director, director.task), 0u);
}

TEST(EngineInventoryTest, OrphanResultIsNotedOnceAndChangesNothing) {
  InFlight director(/*working=*/true);
  director.Break("a");
  director.Advance(absl::Seconds(75));
  ASSERT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
  director.Connect("a");
  for (int repeat = 0; repeat < 2; ++repeat) {
    director.TakeSaid<core::StartRun>();
    director.Say("a", core::RunEnded{director.token, {}});
    EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token));
    EXPECT_EQ(Orphans(director, director.task), 1u);
    EXPECT_EQ(director.Events(director.task).back().agent, "a");
    EXPECT_EQ(director.Events(director.task).back().dispatch, director.token.dispatch);
    EXPECT_EQ(director.Reason(director.task), FailureReason::kAgentLost);
    EXPECT_EQ(director.Lives(), director.ReloadedLives());
    director.Restart();
    director.Connect("a");
  }
}

TEST(EngineInventoryTest, OrphanOfARequeuedTaskDoesNotTouchItsNewDispatch) {
  InFlight director(/*working=*/true, EngineFixture::Requeued());
  director.Break("a");
  director.Connect("b");
  director.AdvanceBeating(absl::Seconds(75));
  ASSERT_EQ(director.AgentOf(director.task), "b");
  const FenceToken current = director.Token(director.task);
  director.Connect("a");
  director.Say("a", core::RunEnded{director.token, {}});
  EXPECT_EQ(director.State(director.task), TaskState::kDispatching);
  EXPECT_EQ(director.Token(director.task), current);
  EXPECT_EQ(Orphans(director, director.task), 1u);
}

TEST(EngineInventoryTest, ResultOfAForgottenTaskIsFencedOffAndCountedAndNotNoted) {
  EngineFixture director({.retention = {.count = 0}});
  director.Connect("a");
  const core::QueueId task = director.Add();
  const FenceToken token = director.Token(task);
  director.Finish(task);
  director.TakeSaid<core::StartRun>();
  const size_t records = director.records_written();
  director.Say("a", core::RunEnded{token, {}});
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), SizeIs(1));
  EXPECT_EQ(director.records_written(), records);
  const OrphanResult orphan = {.token = token, .agent = "a"};
  EXPECT_THAT(director.orphans(), ElementsAre(orphan));
}

TEST(EngineInventoryTest, RunThatTheStoreDoesNotKnowIsFencedOffAndReported) {
  // As after the data folder was lost.
  EngineFixture director;
  const FenceToken token = {core::QueueId(core::Ulid(1, 2)), core::DispatchNumber(1), 1};
  director.Connect(EngineFixture::Running("a", {token}));
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(token));
  const OrphanResult orphan = {.token = token, .agent = "a", .is_run = true};
  EXPECT_THAT(director.orphans(), ElementsAre(orphan));
}

TEST(EngineInventoryTest, RunWhoseDispatchOrCancelIsNotOnRecordIsCountedAndNotNoted) {
  // As after a restore of an older store.
  InFlight director(/*working=*/true);
  const core::TraceId trace = director.engine().book().Find(director.task)->life.trace.trace_id;
  FenceToken later = director.token;
  later.dispatch = core::DispatchNumber(7);
  director.Say("a", core::RunEnded{later, {}});
  FenceToken elsewhere = director.token;
  elsewhere.director_epoch += 1;
  director.Say("a", core::RunEnded{elsewhere, {.end = RunResult::End::kCancelled}});
  EXPECT_THAT(director.orphans(),
              ElementsAre(OrphanResult{later, "a", trace}, OrphanResult{elsewhere, "a", trace}));
  EXPECT_EQ(Orphans(director, director.task), 0u);
  EXPECT_EQ(director.State(director.task), TaskState::kWorking);
}

TEST(EngineInventoryTest, RunThatEndsAsItsCancelledTaskShouldIsNoOrphan) {
  InFlight director(/*working=*/false);
  director.Cancel(director.task);
  director.Say("a", core::StartAnswered{director.token, absl::ResourceExhaustedError("busy")});
  ASSERT_EQ(director.State(director.task), TaskState::kCancelled);
  director.Say("a", core::RunEnded{director.token, {.end = RunResult::End::kCancelled}});
  EXPECT_THAT(TakeTokens<core::FencedOff>(director), ElementsAre(director.token));
  EXPECT_THAT(director.orphans(), IsEmpty());
  EXPECT_EQ(Orphans(director, director.task), 0u);
}

}  // namespace
}  // namespace callboard::director
