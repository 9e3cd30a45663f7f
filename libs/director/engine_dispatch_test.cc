// The choice of task and agent, and the time of a dispatch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::LifecycleState;
using test::EngineFixture;
using test::HasReason;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission InSession(const std::string& session_id) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.session_id = session_id;
  return submission;
}

core::Submission InLane(const std::string& lane) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.lane = lane;
  return submission;
}

TEST(EngineDispatchTest, TaskRunsFromSubmitToResult) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  director.AcceptStart(task);
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  director.FinishRun(task, {.exit_code = 0, .result = "hello"});
  EXPECT_EQ(director.State(task), LifecycleState::kCompleted);
  EXPECT_EQ(director.Task(task).result, "hello");
}

TEST(EngineDispatchTest, SubmitWithImmediateStartIsTwoRecords) {
  EngineFixture director;
  director.Connect("a");
  const size_t before = director.records_written();
  director.Add();
  EXPECT_EQ(director.records_written() - before, 2u);
}

TEST(EngineDispatchTest, SubmitIsAnsweredAsPendingEvenIfItStarts) {
  EngineFixture director;
  director.Connect("a");
  const auto submitted = std::get<SubmitResult>(director.Submit(EngineFixture::Prompt()));
  EXPECT_EQ(submitted.state, LifecycleState::kPending);
  EXPECT_EQ(submitted.position, 1u);
  EXPECT_FALSE(submitted.deduplicated);
  EXPECT_EQ(director.State(submitted.queue_id), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, ReadyTasksStartInTheOrderOfTheirSubmits) {
  EngineFixture director;
  const core::QueueId first = director.Add();
  const core::QueueId second = director.Add();
  const core::QueueId third = director.Add();
  director.Connect("a");
  EXPECT_EQ(director.State(first), LifecycleState::kDispatching);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(second, third));
  director.AcceptStart(first);
  director.FinishRun(first);
  EXPECT_EQ(director.State(second), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, FirstIdleAgentByNameGetsTheTask) {
  EngineFixture director;
  director.Connect("c");
  director.Connect("b");
  director.Connect("a");
  EXPECT_EQ(director.AgentOf(director.Add()), "a");
  EXPECT_EQ(director.AgentOf(director.Add()), "b");
  EXPECT_EQ(director.AgentOf(director.Add()), "c");
}

TEST(EngineDispatchTest, PositionCountsPendingTasksAheadReadyOrNot) {
  EngineFixture director;
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  const core::QueueId delayed = director.Add(later);
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.Task(delayed).position, 1u);
  EXPECT_EQ(director.Task(task).position, 2u);
  director.Connect("a");
  EXPECT_EQ(director.Task(task).position, 0u);
}

TEST(EngineDispatchTest, StartCarriesTheTokenAndTheLatestAgentTime) {
  EngineFixture director;
  director.Connect("a");
  director.Advance(absl::Seconds(7));
  director.SendHeartbeat("a", {});
  const absl::Duration last_heartbeat = director.now().monotonic;
  director.Advance(absl::Seconds(4));
  const core::QueueId task = director.Add(EngineFixture::Prompt("work"));
  const std::vector<core::StartRun> starts = director.TakeSent<core::StartRun>();
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].token,
            (core::FenceToken{task, core::DispatchNumber(1), director.engine().epoch()}));
  EXPECT_EQ(test::ParseSpec(starts[0].spec).prompt(), "work");
  EXPECT_EQ(starts[0].agent_time, last_heartbeat);
}

TEST(EngineDispatchTest, PausedQueueAcceptsButDoesNotDispatch) {
  EngineFixture director;
  director.Connect("a");
  director.Call(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Call(&DirectorEngine::Resume);
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

// ---- Slots and lanes ----

TEST(EngineDispatchTest, LaneTakesAsManyTasksAsItHasSlots) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 2;
  director.Connect(agent);
  director.Add();
  director.Add();
  const core::QueueId third = director.Add();
  EXPECT_THAT(director.PendingTasks(), ElementsAre(third));
}

TEST(EngineDispatchTest, SlotReportedAsUsedGetsNothing) {
  EngineFixture director;
  director.Connect("a");
  director.ReportLoad("a", /*used=*/1);
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, TaskGoesOnlyToItsLane) {
  EngineFixture director;
  director.Connect("a");
  core::SessionOpened builder = EngineFixture::IdleAgent("b");
  builder.lanes = {{"build", {.slots = 1, .used = 0}}};
  director.Connect(builder);
  EXPECT_EQ(director.AgentOf(director.Add(InLane("build"))), "b");
  EXPECT_EQ(director.AgentOf(director.Add()), "a");
  EXPECT_EQ(director.State(director.Add(InLane("deploy"))), LifecycleState::kPending);
}

TEST(EngineDispatchTest, FullLaneDoesNotBlockAnotherLane) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["build"] = {.slots = 1, .used = 0};
  director.Connect(agent);
  director.Add();
  const core::QueueId waits = director.Add();
  EXPECT_EQ(director.State(director.Add(InLane("build"))), LifecycleState::kDispatching);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(waits));
}

TEST(EngineDispatchTest, EveryRequiredLabelMustMatch) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.labels = {{"gpu", "yes"}, {"zone", "north"}};
  director.Connect(agent);
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.required_labels = {{"gpu", "yes"}, {"zone", "south"}};
  EXPECT_EQ(director.State(director.Add(submission)), LifecycleState::kPending);
  submission.spec.terms.required_labels = {{"gpu", "yes"}, {"zone", "north"}};
  EXPECT_EQ(director.State(director.Add(submission)), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, TaskWithoutAnAgentIsSkipped) {
  EngineFixture director;
  const core::QueueId unplaceable = director.Add(InLane("nowhere"));
  const core::QueueId task = director.Add();
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(unplaceable));
}

// ---- Agents that take no tasks ----

TEST(EngineDispatchTest, DrainedAgentGetsNothingUntilUndrained) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.UndrainAgent("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, LeavingAgentGetsNothing) {
  EngineFixture director;
  director.Connect("a");
  director.Send("a", core::LoadReport{{{"default", {.slots = 1, .used = 0}}}, /*leaving=*/true});
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  core::SessionOpened again = EngineFixture::IdleAgent("a");
  again.leaving = true;
  director.Connect(again);
  EXPECT_EQ(director.State(task), LifecycleState::kPending) << "also in the next Session";
}

TEST(EngineDispatchTest, AgentThatMissedHeartbeatsGetsNothingUntilTheNext) {
  EngineFixture director;
  director.Connect("a");
  director.Advance(absl::Seconds(31));
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.SendHeartbeat("a", {});
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, SuspicionDoublesWithEachClosedSession) {
  EngineFixture director;
  for (const int seconds : {5, 10, 20, 40, 80, 120, 120}) {
    director.Connect("a");
    director.BreakSession("a");
    EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(),
              director.now().monotonic + absl::Seconds(seconds));
    director.Advance(absl::Minutes(3));
  }
}

TEST(EngineDispatchTest, SuspectAgentGetsNothingUntilTheSuspicionEnds) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId lost = director.Add();
  director.FailStartWrite(lost);
  director.Cancel(lost);
  const core::QueueId task = director.Add();
  director.Advance(absl::Seconds(5) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, NewSessionEndsTheSuspicionAndHeartbeatItsDoubling) {
  EngineFixture director;
  for (int broken = 0; broken < 2; ++broken) {
    director.Connect("a");
    director.BreakSession("a");
  }
  const core::QueueId task = director.Add();
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  director.SendHeartbeat("a", {});
  director.BreakSession("a");
  EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(),
            director.now().monotonic + absl::Seconds(5));
}

// ---- Delayed tasks ----

TEST(EngineDispatchTest, DelayedTaskIsSkippedUntilItsWallClockTime) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 2;
  director.Connect(agent);
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  const core::QueueId delayed = director.Add(later);
  EXPECT_EQ(director.State(director.Add()), LifecycleState::kDispatching);
  EXPECT_EQ(director.State(delayed), LifecycleState::kPending);
  director.StepWall(absl::Hours(1) - absl::Seconds(1));
  EXPECT_EQ(director.State(delayed), LifecycleState::kPending);
  director.StepWall(absl::Seconds(1));
  EXPECT_EQ(director.State(delayed), LifecycleState::kDispatching);
}

// ---- Sessions ----

TEST(EngineDispatchTest, SessionTaskWaitsForEarlierLiveTasks) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  const core::QueueId second = director.Add(InSession("s"));
  EXPECT_EQ(director.AgentOf(director.Add()), "b") << "other tasks are dispatched";
  EXPECT_EQ(director.State(second), LifecycleState::kPending);
  director.AcceptStart(first);
  director.FinishRun(first);
  EXPECT_EQ(director.State(second), LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, SessionRunsInOrderOfAdmission) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId first = director.Add(InSession("s"));
  const core::QueueId second = director.Add(InSession("s"));
  director.AnswerBusy(first);
  ASSERT_THAT(director.PendingTasks(), ElementsAre(second, first));
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(director.State(first), LifecycleState::kDispatching);
  EXPECT_EQ(director.State(second), LifecycleState::kPending);
}

TEST(EngineDispatchTest, SessionWaitsForItsAgentWhileOthersAreIdle) {
  EngineFixture director;
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  director.AcceptStart(first);
  director.FinishRun(first);
  director.ReportLoad("b", /*used=*/1);
  director.Connect("a");
  const core::QueueId second = director.Add(InSession("s"));
  EXPECT_EQ(director.State(second), LifecycleState::kPending);
  director.ReportLoad("b", /*used=*/0);
  EXPECT_EQ(director.AgentOf(second), "b");
}

TEST(EngineDispatchTest, SessionMovesWhenItsAgentIsGoneOrDrained) {
  for (const bool gone : {true, false}) {
    EngineFixture director;
    director.Connect("b");
    const core::QueueId first = director.Add(InSession("s"));
    director.AcceptStart(first);
    director.FinishRun(first);
    director.ReportLoad("b", /*used=*/1);
    director.Connect("a");
    const core::QueueId second = director.Add(InSession("s"));
    ASSERT_EQ(director.State(second), LifecycleState::kPending);
    if (gone) {
      director.BreakSession("b");
    } else {
      director.DrainAgent("b");
    }
    EXPECT_EQ(director.AgentOf(second), "a");
  }
}

TEST(EngineDispatchTest, AgentThatAnsweredWithTheResultOwnsTheSession) {
  EngineFixture director;
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  director.FinishRun(first);
  director.ReportLoad("b", /*used=*/1);
  director.Connect("a");
  EXPECT_EQ(director.State(director.Add(InSession("s"))), LifecycleState::kPending);
}

TEST(EngineDispatchTest, SessionIsFreeOnceItsLastRunIsForgotten) {
  EngineFixture director({.retention = {.age = absl::Minutes(1)}});
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  director.AcceptStart(first);
  director.FinishRun(first);
  director.ReportLoad("b", /*used=*/1);
  director.Connect("a");
  const core::QueueId second = director.Add(InSession("s"));
  director.AdvanceWithHeartbeats(absl::Seconds(50));
  ASSERT_EQ(director.State(second), LifecycleState::kPending);
  director.Advance(absl::Seconds(10));
  EXPECT_EQ(director.AgentOf(second), "a");
}

// ---- Names of agents ----

TEST(EngineDispatchTest, SecondInstanceOfANameIsRejected) {
  EngineFixture director;
  director.Connect("a");
  const absl::Status status = director.engine().Announce({"a", "a/2", "grpc://a"}, director.now());
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(base::GetErrorDetails(status).reason, "AGENT_NAME_TAKEN");
  EXPECT_TRUE(director.engine().Announce({"a", "a/1", "grpc://a"}, director.now()).ok());
  director.BreakSession("a");
  EXPECT_TRUE(director.engine().Announce({"a", "a/2", "grpc://a"}, director.now()).ok());
}

TEST(EngineDispatchTest, SecondInstanceCannotOpenASession) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  core::SessionOpened second = EngineFixture::IdleAgent("a");
  second.instance_id = "a/2";
  EXPECT_THAT(director.engine().OnSessionOpened(core::AgentSessionId(77), second, director.now()),
              HasReason("AGENT_NAME_TAKEN"));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
}

TEST(EngineDispatchTest, InvalidAgentIsRejected) {
  EngineFixture director;
  core::SessionOpened nameless = EngineFixture::IdleAgent("a");
  nameless.name.clear();
  core::SessionOpened lifeless = EngineFixture::IdleAgent("a");
  lifeless.instance_id.clear();
  core::SessionOpened labelled = EngineFixture::IdleAgent("a");
  for (int i = 0; i < 33; ++i) labelled.labels[std::to_string(i)] = "";
  for (const core::SessionOpened& opened : {nameless, lifeless, labelled}) {
    EXPECT_THAT(director.engine().OnSessionOpened(core::AgentSessionId(77), opened, director.now()),
                HasReason("BAD_AGENT"));
  }
  EXPECT_TRUE(director.engine().fleet().agents().empty());
}

TEST(EngineDispatchTest, LanesFollowTheLastReportAndAreBounded) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  for (int i = 0; i < 100; ++i) agent.lanes["lane-" + std::to_string(i)] = {.slots = 4'000'000'000};
  director.Connect(agent);
  const Agent& known = director.engine().fleet().agents().at("a");
  EXPECT_EQ(known.lanes.size(), 64u);
  EXPECT_EQ(known.lanes.at("lane-0").slots, 1000u);
  director.ReportLoad("a", /*used=*/0);
  EXPECT_EQ(known.lanes.size(), 1u);
}

TEST(EngineDispatchTest, AgentIsForgottenAnHourAfterItWasLastSeen) {
  EngineFixture director;
  director.Connect("a");
  director.BreakSession("a");
  director.Advance(absl::Minutes(59));
  EXPECT_THAT(director.engine().fleet().agents(), SizeIs(1));
  director.Advance(absl::Minutes(2));
  EXPECT_THAT(director.engine().fleet().agents(), IsEmpty());
}

TEST(EngineDispatchTest, DrainOutlivesALongAbsence) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a");
  director.BreakSession("a");
  director.Advance(absl::Hours(2));
  director.Connect("a");
  EXPECT_EQ(director.State(director.Add()), LifecycleState::kPending);
}

TEST(EngineDispatchTest, SessionDoesNotWaitForAnAgentThatCannotTakeIt) {
  for (const bool cordoned : {true, false}) {
    EngineFixture director;
    director.Connect("a");
    core::Submission submission = InSession("s");
    const core::QueueId first = director.Add(submission);
    director.AcceptStart(first);
    director.FinishRun(first);
    if (cordoned) {
      director.AnswerStart(director.Add(), absl::UnauthenticatedError(""));
    } else {
      submission.spec.terms.required_labels = {{"os", "linux"}};
    }
    const core::QueueId second = director.Add(submission);
    core::SessionOpened b = EngineFixture::IdleAgent("b");
    b.labels = {{"os", "linux"}};
    b.lanes["default"].slots = 2;
    director.Connect(b);
    EXPECT_EQ(director.AgentOf(second), "b") << cordoned;
  }
}

TEST(EngineDispatchTest, TaskThatBecameReadyDuringALongTurnKeepsItsPosition) {
  EngineFixture director;
  core::Submission delayed = EngineFixture::Prompt();
  delayed.spec.earliest_start_at = director.now().wall + absl::Seconds(10);
  const core::QueueId first = director.Add(delayed);
  const core::QueueId second = director.Add();
  director.AdvanceWithoutTurn(absl::Seconds(10));
  director.Connect("a");
  EXPECT_EQ(director.State(first), core::LifecycleState::kDispatching);
  EXPECT_EQ(director.State(second), core::LifecycleState::kPending);
}

TEST(EngineDispatchTest, TaskDoesNotStartEarlyWhenTheClockIsSetBack) {
  EngineFixture director;
  core::Submission delayed = EngineFixture::Prompt();
  delayed.spec.earliest_start_at = director.now().wall + absl::Seconds(10);
  const core::QueueId task = director.Add(delayed);
  director.Advance(absl::Seconds(10));
  director.StepWall(-absl::Seconds(5));
  director.Connect("a");
  EXPECT_EQ(director.State(task), core::LifecycleState::kPending);
  director.Advance(absl::Seconds(5));
  EXPECT_EQ(director.State(task), core::LifecycleState::kDispatching);
}

TEST(EngineDispatchTest, DelayedSessionTaskStartsAfterTheClockWasSetBack) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = InSession("s");
  const core::QueueId first = director.Add(submission);
  director.AcceptStart(first);
  submission.spec.earliest_start_at = director.now().wall + absl::Seconds(10);
  const core::QueueId second = director.Add(submission);
  director.Advance(absl::Seconds(10));
  director.StepWall(-absl::Seconds(5));
  director.FinishRun(first);
  EXPECT_EQ(director.State(second), core::LifecycleState::kPending);
  director.Advance(absl::Seconds(5));
  EXPECT_EQ(director.State(second), core::LifecycleState::kDispatching);
}

}  // namespace
}  // namespace callboard::director
