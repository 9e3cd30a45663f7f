// Which task goes to which agent, and when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::TaskState;
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
  submission.spec.lane = lane;
  return submission;
}

TEST(EngineDispatchTest, TaskRunsFromSubmitToResult) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  director.Accept(task);
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  director.Finish(task, {.exit_code = 0, .result = "hello"});
  EXPECT_EQ(director.State(task), TaskState::kCompleted);
  EXPECT_EQ(director.Task(task).result, "hello");
}

TEST(EngineDispatchTest, SubmitThatStartsAtOnceIsTwoRecords) {
  EngineFixture director;
  director.Connect("a");
  const size_t before = director.records_written();
  director.Add();
  EXPECT_EQ(director.records_written() - before, 2u);
}

TEST(EngineDispatchTest, SubmitIsAnsweredAsAdmittedEvenIfItStartsAtOnce) {
  EngineFixture director;
  director.Connect("a");
  const auto submitted = std::get<Submitted>(director.Submit(EngineFixture::Prompt()));
  EXPECT_EQ(submitted.state, TaskState::kPending);
  EXPECT_EQ(submitted.position, 1u);
  EXPECT_FALSE(submitted.deduplicated);
  EXPECT_EQ(director.State(submitted.queue_id), TaskState::kDispatching);
}

TEST(EngineDispatchTest, ReadyTasksStartInTheOrderOfTheirSubmits) {
  EngineFixture director;
  const core::QueueId first = director.Add();
  const core::QueueId second = director.Add();
  const core::QueueId third = director.Add();
  director.Connect("a");
  EXPECT_EQ(director.State(first), TaskState::kDispatching);
  EXPECT_THAT(director.Line(), ElementsAre(second, third));
  director.Accept(first);
  director.Finish(first);
  EXPECT_EQ(director.State(second), TaskState::kDispatching);
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

TEST(EngineDispatchTest, StartCarriesTheTokenAndTheAgentsNewestTime) {
  EngineFixture director;
  director.Connect("a");
  director.Advance(absl::Seconds(7));
  director.Beat("a", {});
  const absl::Duration heard = director.now().monotonic;
  director.Advance(absl::Seconds(4));
  const core::QueueId task = director.Add(EngineFixture::Prompt("work"));
  const std::vector<core::StartRun> starts = director.TakeSaid<core::StartRun>();
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].token,
            (core::FenceToken{task, core::DispatchNumber(1), director.engine().epoch()}));
  EXPECT_EQ(starts[0].spec->prompt, "work");
  EXPECT_EQ(starts[0].agent_time, heard);
}

TEST(EngineDispatchTest, PausedQueueAcceptsAndStartsNothingUntilResumed) {
  EngineFixture director;
  director.Connect("a");
  director.Tell(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Tell(&DirectorEngine::Resume);
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

// ---- Slots and lanes ----

TEST(EngineDispatchTest, LaneTakesAsManyTasksAsItHasSlots) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["default"].slots = 2;
  director.Connect(agent);
  director.Add();
  director.Add();
  const core::QueueId third = director.Add();
  EXPECT_THAT(director.Line(), ElementsAre(third));
}

TEST(EngineDispatchTest, SlotThatTheAgentReportsTakenGetsNothing) {
  EngineFixture director;
  director.Connect("a");
  director.Report("a", /*used=*/1);
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineDispatchTest, TaskGoesOnlyToItsLane) {
  EngineFixture director;
  director.Connect("a");
  core::AgentOpened builder = EngineFixture::Knowing("b");
  builder.lanes = {{"build", {.slots = 1, .used = 0}}};
  director.Connect(builder);
  EXPECT_EQ(director.AgentOf(director.Add(InLane("build"))), "b");
  EXPECT_EQ(director.AgentOf(director.Add()), "a");
  EXPECT_EQ(director.State(director.Add(InLane("deploy"))), TaskState::kPending);
}

TEST(EngineDispatchTest, FullLaneDoesNotHoldUpAnotherLaneOfTheSameAgent) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["build"] = {.slots = 1, .used = 0};
  director.Connect(agent);
  director.Add();
  const core::QueueId waits = director.Add();
  EXPECT_EQ(director.State(director.Add(InLane("build"))), TaskState::kDispatching);
  EXPECT_THAT(director.Line(), ElementsAre(waits));
}

TEST(EngineDispatchTest, EveryRequiredLabelMustMatch) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.labels = {{"gpu", "yes"}, {"zone", "north"}};
  director.Connect(agent);
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.required_labels = {{"gpu", "yes"}, {"zone", "south"}};
  EXPECT_EQ(director.State(director.Add(submission)), TaskState::kPending);
  submission.spec.required_labels = {{"gpu", "yes"}, {"zone", "north"}};
  EXPECT_EQ(director.State(director.Add(submission)), TaskState::kDispatching);
}

TEST(EngineDispatchTest, TaskThatNobodyServesIsPassedOver) {
  EngineFixture director;
  const core::QueueId unplaceable = director.Add(InLane("nowhere"));
  const core::QueueId task = director.Add();
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  EXPECT_THAT(director.Line(), ElementsAre(unplaceable));
}

// ---- Who takes nothing ----

TEST(EngineDispatchTest, DrainedAgentGetsNothingUntilUndrained) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.UndrainAgent("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineDispatchTest, AgentThatSaysItLeavesGetsNothing) {
  EngineFixture director;
  director.Connect("a");
  director.Say("a", core::LoadReported{{{"default", {.slots = 1, .used = 0}}}, /*leaving=*/true});
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), TaskState::kPending);
  core::AgentOpened again = EngineFixture::Knowing("a");
  again.leaving = true;
  director.Connect(again);
  EXPECT_EQ(director.State(task), TaskState::kPending) << "also in its next Session";
}

TEST(EngineDispatchTest, AgentThatMissedHeartbeatsGetsNothingUntilTheNext) {
  EngineFixture director;
  director.Connect("a");
  director.Advance(absl::Seconds(31));
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Beat("a", {});
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineDispatchTest, SuspicionDoublesWithEachSessionThatBreaks) {
  EngineFixture director;
  for (const int seconds : {5, 10, 20, 40, 80, 120, 120}) {
    director.Connect("a");
    director.Break("a");
    EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(),
              director.now().monotonic + absl::Seconds(seconds));
    director.Advance(absl::Minutes(3));
  }
}

TEST(EngineDispatchTest, SuspectAgentGetsNothingUntilItsTimeIsOver) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId lost = director.Add();
  director.LoseStart(lost);
  director.Cancel(lost);
  const core::QueueId task = director.Add();
  director.Advance(absl::Seconds(5) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineDispatchTest, OpenedSessionEndsSuspicionAndAHeartbeatItsDoubling) {
  EngineFixture director;
  for (int broken = 0; broken < 2; ++broken) {
    director.Connect("a");
    director.Break("a");
  }
  const core::QueueId task = director.Add();
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  director.Beat("a", {});
  director.Break("a");
  EXPECT_EQ(director.engine().fleet().agents().at("a").suspect_until(),
            director.now().monotonic + absl::Seconds(5));
}

// ---- Not before ----

TEST(EngineDispatchTest, DelayedTaskStartsByTheWallClockAndIsPassedOverUntilThen) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["default"].slots = 2;
  director.Connect(agent);
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  const core::QueueId delayed = director.Add(later);
  EXPECT_EQ(director.State(director.Add()), TaskState::kDispatching);
  EXPECT_EQ(director.State(delayed), TaskState::kPending);
  director.StepWall(absl::Hours(1) - absl::Seconds(1));
  EXPECT_EQ(director.State(delayed), TaskState::kPending);
  director.StepWall(absl::Seconds(1));
  EXPECT_EQ(director.State(delayed), TaskState::kDispatching);
}

// ---- Sessions ----

TEST(EngineDispatchTest, TaskOfASessionWaitsForEarlierLiveOnes) {
  EngineFixture director;
  director.Connect("a");
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  const core::QueueId second = director.Add(InSession("s"));
  EXPECT_EQ(director.AgentOf(director.Add()), "b") << "others pass";
  EXPECT_EQ(director.State(second), TaskState::kPending);
  director.Accept(first);
  director.Finish(first);
  EXPECT_EQ(director.State(second), TaskState::kDispatching);
}

TEST(EngineDispatchTest, OrderOfASessionIsThatOfAdmissionWhateverThePlaceInLine) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId first = director.Add(InSession("s"));
  const core::QueueId second = director.Add(InSession("s"));
  director.RefuseAsBusy(first);
  ASSERT_THAT(director.Line(), ElementsAre(second, first));
  director.Report("a", /*used=*/0);
  EXPECT_EQ(director.State(first), TaskState::kDispatching);
  EXPECT_EQ(director.State(second), TaskState::kPending);
}

TEST(EngineDispatchTest, SessionWaitsForItsAgentWhileOthersAreIdle) {
  EngineFixture director;
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  director.Accept(first);
  director.Finish(first);
  director.Report("b", /*used=*/1);
  director.Connect("a");
  const core::QueueId second = director.Add(InSession("s"));
  EXPECT_EQ(director.State(second), TaskState::kPending);
  director.Report("b", /*used=*/0);
  EXPECT_EQ(director.AgentOf(second), "b");
}

TEST(EngineDispatchTest, SessionMovesWhenItsAgentIsGoneOrDrained) {
  for (const bool gone : {true, false}) {
    EngineFixture director;
    director.Connect("b");
    const core::QueueId first = director.Add(InSession("s"));
    director.Accept(first);
    director.Finish(first);
    director.Report("b", /*used=*/1);
    director.Connect("a");
    const core::QueueId second = director.Add(InSession("s"));
    ASSERT_EQ(director.State(second), TaskState::kPending);
    if (gone) {
      director.Break("b");
    } else {
      director.DrainAgent("b");
    }
    EXPECT_EQ(director.AgentOf(second), "a");
  }
}

TEST(EngineDispatchTest, AgentThatAnsweredAStartWithItsResultHasTheSession) {
  EngineFixture director;
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  director.Finish(first);
  director.Report("b", /*used=*/1);
  director.Connect("a");
  EXPECT_EQ(director.State(director.Add(InSession("s"))), TaskState::kPending);
}

TEST(EngineDispatchTest, SessionIsFreeOnceItsLastRunIsForgotten) {
  EngineFixture director({.retention = {.age = absl::Minutes(1)}});
  director.Connect("b");
  const core::QueueId first = director.Add(InSession("s"));
  director.Accept(first);
  director.Finish(first);
  director.Report("b", /*used=*/1);
  director.Connect("a");
  const core::QueueId second = director.Add(InSession("s"));
  director.AdvanceBeating(absl::Seconds(50));
  ASSERT_EQ(director.State(second), TaskState::kPending);
  director.Advance(absl::Seconds(10));
  EXPECT_EQ(director.AgentOf(second), "a");
}

// ---- Names of agents ----

TEST(EngineDispatchTest, SecondLiveInstanceOfANameIsRefused) {
  EngineFixture director;
  director.Connect("a");
  const absl::Status status = director.engine().Announce({"a", "a/2", "grpc://a"}, director.now());
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(base::DetailsOf(status).reason, "AGENT_NAME_TAKEN");
  EXPECT_TRUE(director.engine().Announce({"a", "a/1", "grpc://a"}, director.now()).ok());
  director.Break("a");
  EXPECT_TRUE(director.engine().Announce({"a", "a/2", "grpc://a"}, director.now()).ok());
}

TEST(EngineDispatchTest, SecondLiveInstanceCannotOpenASessionEither) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  core::AgentOpened second = EngineFixture::Knowing("a");
  second.instance_id = "a/2";
  EXPECT_THAT(director.engine().OnOpened(core::SessionId(77), second, director.now()),
              HasReason("AGENT_NAME_TAKEN"));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
}

TEST(EngineDispatchTest, AgentThatSaysTooMuchOrNothingIsRefused) {
  EngineFixture director;
  core::AgentOpened nameless = EngineFixture::Knowing("a");
  nameless.name.clear();
  core::AgentOpened lifeless = EngineFixture::Knowing("a");
  lifeless.instance_id.clear();
  core::AgentOpened labelled = EngineFixture::Knowing("a");
  for (int i = 0; i < 33; ++i) labelled.labels[std::to_string(i)] = "";
  for (const core::AgentOpened& opened : {nameless, lifeless, labelled}) {
    EXPECT_THAT(director.engine().OnOpened(core::SessionId(77), opened, director.now()),
                HasReason("BAD_AGENT"));
  }
  EXPECT_TRUE(director.engine().fleet().agents().empty());
}

TEST(EngineDispatchTest, LanesAreThoseOfTheLastReportAndBounded) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  for (int i = 0; i < 100; ++i) agent.lanes["lane-" + std::to_string(i)] = {.slots = 4'000'000'000};
  director.Connect(agent);
  const Agent& known = director.engine().fleet().agents().at("a");
  EXPECT_EQ(known.lanes.size(), 64u);
  EXPECT_EQ(known.lanes.at("lane-0").slots, 1000u);
  director.Report("a", /*used=*/0);
  EXPECT_EQ(known.lanes.size(), 1u);
}

TEST(EngineDispatchTest, AgentIsForgottenAnHourAfterItWasLastSeen) {
  EngineFixture director;
  director.Connect("a");
  director.Break("a");
  director.Advance(absl::Minutes(59));
  EXPECT_THAT(director.engine().fleet().agents(), SizeIs(1));
  director.Advance(absl::Minutes(2));
  EXPECT_THAT(director.engine().fleet().agents(), IsEmpty());
}

TEST(EngineDispatchTest, DrainOutlivesAnAgentsLongAbsence) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a");
  director.Break("a");
  director.Advance(absl::Hours(2));
  director.Connect("a");
  EXPECT_EQ(director.State(director.Add()), TaskState::kPending);
}

TEST(EngineDispatchTest, SessionDoesNotWaitForAnAgentThatCannotTakeIt) {
  for (const bool cordoned : {true, false}) {
    EngineFixture director;
    director.Connect("a");
    core::Submission submission = InSession("s");
    const core::QueueId first = director.Add(submission);
    director.Accept(first);
    director.Finish(first);
    if (cordoned) {
      director.Answer(director.Add(), absl::UnauthenticatedError(""));
    } else {
      submission.spec.required_labels = {{"os", "linux"}};
    }
    const core::QueueId second = director.Add(submission);
    core::AgentOpened b = EngineFixture::Knowing("b");
    b.labels = {{"os", "linux"}};
    b.lanes["default"].slots = 2;
    director.Connect(b);
    EXPECT_EQ(director.AgentOf(second), "b") << cordoned;
  }
}

TEST(EngineDispatchTest, WhatBecameReadyWhileTheDirectorWasBusyKeepsItsPlace) {
  EngineFixture director;
  core::Submission delayed = EngineFixture::Prompt();
  delayed.spec.earliest_start_at = director.now().wall + absl::Seconds(10);
  const core::QueueId first = director.Add(delayed);
  const core::QueueId second = director.Add();
  director.AdvanceWithoutATurn(absl::Seconds(10));
  director.Connect("a");
  EXPECT_EQ(director.State(first), core::TaskState::kDispatching);
  EXPECT_EQ(director.State(second), core::TaskState::kPending);
}

TEST(EngineDispatchTest, TaskDoesNotStartBeforeItsTimeAlsoWhenTheClockWasSetBack) {
  EngineFixture director;
  core::Submission delayed = EngineFixture::Prompt();
  delayed.spec.earliest_start_at = director.now().wall + absl::Seconds(10);
  const core::QueueId task = director.Add(delayed);
  director.Advance(absl::Seconds(10));
  director.StepWall(-absl::Seconds(5));
  director.Connect("a");
  EXPECT_EQ(director.State(task), core::TaskState::kPending);
  director.Advance(absl::Seconds(5));
  EXPECT_EQ(director.State(task), core::TaskState::kDispatching);
}

TEST(EngineDispatchTest, DelayedTaskOfASessionStartsAlsoWhenTheClockWasSetBackBeforeItsTurn) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = InSession("s");
  const core::QueueId first = director.Add(submission);
  director.Accept(first);
  submission.spec.earliest_start_at = director.now().wall + absl::Seconds(10);
  const core::QueueId second = director.Add(submission);
  director.Advance(absl::Seconds(10));
  director.StepWall(-absl::Seconds(5));
  director.Finish(first);
  EXPECT_EQ(director.State(second), core::TaskState::kPending);
  director.Advance(absl::Seconds(5));
  EXPECT_EQ(director.State(second), core::TaskState::kDispatching);
}

}  // namespace
}  // namespace callboard::director
