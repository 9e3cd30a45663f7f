// State that survives a restart, and agents that reconnect after one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::FenceToken;
using core::LifecycleState;
using core::RunResult;
using core::TaskEventKind;
using test::EngineFixture;
using test::HasReason;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission WithRetryOn() {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.retry_on = {*core::ParseRetryRule("exit:*")};
  return submission;
}

// ---- The task table ----

TEST(EngineRecoveryTest, RestartKeepsTheQueueOrder) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  const core::QueueId busy_task = director.Add();
  const core::QueueId backing_off = director.Add();
  const core::QueueId lost = director.Add(EngineFixture::RequeueOnLoss());
  const core::QueueId fresh = director.Add();
  director.Call(&DirectorEngine::Pause);
  director.AnswerBusy(busy_task);
  director.AnswerStart(backing_off, absl::UnavailableError(""));
  director.AcceptStart(lost);
  director.BreakSession("a");
  director.StepWall(-absl::Hours(2));
  const core::QueueId newest = director.Add();
  director.Advance(absl::Seconds(75));
  const std::vector<core::QueueId> pending = director.PendingTasks();
  ASSERT_THAT(pending, ElementsAre(backing_off, lost, fresh, busy_task, newest));
  director.Restart();
  EXPECT_EQ(director.PendingTasks(), pending);
}

TEST(EngineRecoveryTest, ImpossibleRecordIsRejected) {
  test::FakeRandom random;
  DirectorEngine engine({}, random);
  core::TaskRecord record = {.change = core::EventOnly{}};
  record.number = 2;
  const absl::Status status = engine.Recover(record);
  EXPECT_THAT(status, test::StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(status, HasReason("STORE_REFUSED"));
  EXPECT_EQ(engine.tasks().Find(record.queue_id), nullptr);
}

TEST(EngineRecoveryTest, DuplicateSequenceNumberIsRejected) {
  test::FakeRandom random;
  DirectorEngine engine({}, random);
  ASSERT_THAT(engine.Recover(test::StoredAdmission(1)), IsOk());
  core::TaskRecord other = test::StoredAdmission(2);
  std::get<core::TaskAdmitted>(other.change).sequence = 1;
  EXPECT_THAT(engine.Recover(other), HasReason("STORE_REFUSED"));
}

TEST(EngineRecoveryTest, EpochThatDoesNotGrowIsRejected) {
  test::FakeRandom random;
  DirectorEngine engine({}, random);
  EXPECT_THAT(engine.Recover(core::EpochBegan{0}), HasReason("STORE_REFUSED"));
  EXPECT_THAT(engine.Recover(core::EpochBegan{1}), IsOk());
}

TEST(EngineRecoveryTest, MemoryEqualsTheReloadedStore) {
  EngineFixture director;
  for (const std::string name : {"a", "b"}) {
    core::SessionOpened agent = EngineFixture::IdleAgent(name);
    agent.lanes["default"].slots = 20;
    director.Connect(agent);
  }
  const auto equal = [&director] { return director.TaskStates() == director.ReloadedTaskStates(); };
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 16; ++i)
    tasks.push_back(director.Add(i % 2 == 0 ? EngineFixture::RequeueOnLoss() : WithRetryOn()));
  EXPECT_TRUE(equal());
  director.AnswerBusy(tasks[0]);
  director.AnswerStart(tasks[1], absl::UnavailableError("down"));
  director.AnswerStart(tasks[2], absl::InvalidArgumentError("no"));
  director.AnswerStart(tasks[3], absl::PermissionDeniedError("who?"));
  director.FailStartWrite(tasks[4]);
  EXPECT_TRUE(equal());
  for (int i = 5; i < 12; ++i) director.AcceptStart(tasks[i]);
  director.FinishRun(tasks[5],
                     {.end = RunResult::End::kFailed, .exit_code = 3, .result = "partly"});
  director.FinishRun(tasks[6], {.exit_code = 0, .result = "all"});
  director.FinishRun(tasks[7], {.end = RunResult::End::kTimedOut});
  director.FinishRun(tasks[8], {.end = RunResult::End::kCancelled});
  EXPECT_TRUE(equal());
  director.Cancel(tasks[9]);
  director.Cancel(tasks[13]);
  director.Cancel(tasks[0]);
  EXPECT_TRUE(equal());
  director.BreakSession("a");
  director.Advance(absl::Minutes(3));
  EXPECT_TRUE(equal());
  director.Restart();
  EXPECT_TRUE(equal());
  director.Connect("b");
  director.AdvanceWithHeartbeats(absl::Minutes(10));
  EXPECT_TRUE(equal());
}

TEST(EngineRecoveryTest, BusyRecordsReplaceEachOtherFromTheFifthOn) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  size_t events = 0;
  for (int busy_answer = 1; busy_answer <= 40; ++busy_answer) {
    director.AnswerBusy(task);
    EXPECT_EQ(director.TaskStates(), director.ReloadedTaskStates()) << busy_answer;
    if (busy_answer == 5) events = director.Events(task).size();
    if (busy_answer > 5) {
      EXPECT_EQ(director.Events(task).size(), events) << busy_answer;
    }
    director.SendHeartbeat("a", {});
    director.ReportLoad("a", /*used=*/0);
    EXPECT_EQ(director.TaskStates(), director.ReloadedTaskStates()) << busy_answer;
  }
  director.Restart();
  EXPECT_EQ(director.Task(task).busy_rejections, 40u);
  EXPECT_EQ(director.Task(task).dispatch, core::DispatchNumber(41));
  EXPECT_EQ(director.Events(task).back().kind, TaskEventKind::kDispatching);
}

TEST(EngineRecoveryTest, EventNumbersOnlyGrow) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.Events(task).front().number, 2u) << "number 1 is the submit";
  uint64_t last = director.Events(task).back().number;
  for (int busy_answer = 1; busy_answer <= 8; ++busy_answer) {
    director.AnswerBusy(task);
    EXPECT_GT(director.Events(task).back().number, last) << busy_answer;
    last = director.Events(task).back().number;
    if (busy_answer == 6) {
      director.Restart();
      director.Connect("a");
    } else {
      director.SendHeartbeat("a", {});
      director.ReportLoad("a", /*used=*/0);
    }
    EXPECT_GT(director.Events(task).back().number, last) << busy_answer;
    last = director.Events(task).back().number;
  }
  uint64_t before = 0;
  for (const core::TaskEvent& event : director.Events(task)) {
    EXPECT_GT(event.number, std::exchange(before, event.number));
  }
}

TEST(EngineRecoveryTest, DispatchNumbersAndEpochsOnlyGrow) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const uint64_t epoch = director.engine().epoch();
  const FenceToken before = director.Token(task);
  director.Restart();
  EXPECT_EQ(director.engine().epoch(), epoch + 1);
  EXPECT_EQ(director.Token(task), before) << "the token of the dispatch is unchanged";
  director.Connect("a");
  EXPECT_EQ(director.Token(task),
            (FenceToken{task, core::DispatchNumber(2), director.engine().epoch()}));
}

TEST(EngineRecoveryTest, EpochOfANewStoreIsTheUnixTime) {
  EngineFixture director;
  EXPECT_EQ(director.engine().epoch(),
            static_cast<uint64_t>(absl::ToUnixSeconds(director.now().wall)));
}

TEST(EngineRecoveryTest, SwitchKeepsActorReasonAndTime) {
  EngineFixture director;
  const auto status = [&director] { return director.engine().views().Status(director.now()); };
  EXPECT_EQ(status().pause, std::nullopt);
  director.Call(&DirectorEngine::Pause, "the disk is full");
  const core::SwitchCause paused = {"me", "the disk is full", director.now().wall};
  director.Advance(absl::Seconds(1));
  director.Call(&DirectorEngine::Drain, "an upgrade");
  const core::SwitchCause drained = {"me", "an upgrade", director.now().wall};
  director.Advance(absl::Seconds(1));
  director.Call(&DirectorEngine::Pause, "once more");
  director.Restart();
  EXPECT_EQ(status().pause, paused) << "a repeated pause changes nothing";
  EXPECT_EQ(status().drain, drained);
  director.Call(&DirectorEngine::Resume);
  director.Restart();
  EXPECT_EQ(status().pause, std::nullopt);
  EXPECT_EQ(status().drain, std::nullopt);
}

TEST(EngineRecoveryTest, PauseAndDrainSurviveARestart) {
  EngineFixture director;
  director.Call(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  director.Call(&DirectorEngine::Drain);
  director.Restart();
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), HasReason("QUEUE_DRAINING"));
  director.Call(&DirectorEngine::Resume);
  director.Restart();
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineRecoveryTest, DrainedAgentStaysDrained) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a");
  director.Restart();
  director.Advance(absl::Minutes(1));
  core::SessionOpened reborn = EngineFixture::IdleAgent("a");
  reborn.instance_id = "a/2";
  director.Connect(reborn);
  EXPECT_EQ(director.State(director.Add()), LifecycleState::kPending);
}

TEST(EngineRecoveryTest, CordonLastsUntilANewInstance) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::UnauthenticatedError(""));
  director.Restart();
  director.Advance(absl::Minutes(1));
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  core::SessionOpened reborn = EngineFixture::IdleAgent("a");
  reborn.instance_id = "a/2";
  director.Connect(reborn);
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
  director.Restart();
  EXPECT_THAT(director.engine().tasks().marked_agents(), IsEmpty());
}

// One accident does not count as three failures.
TEST(EngineRecoveryTest, AgentThatLostSeveralTasksAtOnceIsNotCordoned) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  for (int i = 0; i < 3; ++i) director.AcceptStart(director.Add());
  director.BreakSession("a");
  agent.instance_id = "a/2";
  director.Connect(agent);
  EXPECT_EQ(director.State(director.Add()), LifecycleState::kDispatching);
}

TEST(EngineRecoveryTest, GoAwayExtendsLeasesAndStopsDispatching) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  const core::QueueId next = director.Add();
  director.Call(&DirectorEngine::GoAway);
  director.Advance(absl::Minutes(5));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  director.FinishRun(task);
  EXPECT_EQ(director.State(next), LifecycleState::kPending);
}

TEST(EngineRecoveryTest, LeaseExtensionEndsWhenEveryAgentHasReconnected) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Call(&DirectorEngine::GoAway);
  director.Restart();
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.running = {director.Token(task)};
  director.Connect(agent);
  director.Restart();
  director.Advance(absl::Seconds(75));
  EXPECT_EQ(director.State(task), LifecycleState::kFailed);
}

TEST(EngineRecoveryTest, RequestIdsSurviveARestart) {
  EngineFixture director;
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.request_id = "r";
  const core::QueueId live = director.Add(submission);
  director.Restart();
  EXPECT_EQ(std::get<SubmitResult>(director.Submit(submission)).queue_id, live);
  director.Cancel(live);
  director.Restart();
  EXPECT_TRUE(std::get<SubmitResult>(director.Submit(submission)).deduplicated);
}

// ---- Clocks ----

TEST(EngineRecoveryTest, BackoffContinuesAfterARestart) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Seconds(60)));
  director.AdvanceWithHeartbeats(absl::Seconds(40));
  director.Restart();
  director.Connect("a");
  director.AdvanceWithHeartbeats(absl::Seconds(20) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineRecoveryTest, BackoffDoesNotGrowWithTheWallClock) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Seconds(60)));
  director.StepWall(-absl::Hours(3));
  director.Restart();
  director.Connect("a");
  director.AdvanceWithHeartbeats(absl::Seconds(59));
  EXPECT_EQ(director.State(task), LifecycleState::kPending);
  director.Advance(absl::Seconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineRecoveryTest, RestartRenewsEveryLease) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Advance(absl::Seconds(70));
  director.Restart();
  director.Advance(absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, LeasesLastFiveMinutesLongerAfterGoAway) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Call(&DirectorEngine::GoAway);
  const std::vector<core::GoingAway> sent = director.TakeSent<core::GoingAway>();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_EQ(sent[0].extension, absl::Minutes(5));
  director.Restart();
  director.Advance(absl::Minutes(5) + absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, LeaseOfADisconnectedAgentIsExtendedOnce) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Call(&DirectorEngine::GoAway);
  director.Restart();
  director.Call(&DirectorEngine::GoAway);
  director.Advance(absl::Minutes(5) + absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, FirstHeartbeatEndsAnExtendedLease) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Call(&DirectorEngine::GoAway);
  director.Restart();
  director.Connect(EngineFixture::RunningAgent("a", {director.Token(task)}));
  director.SendHeartbeat("a", {director.Token(task)});
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, RestartResetsTheGuardOfARun) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.timeout = absl::Seconds(10);
  const core::QueueId task = director.Add(submission);
  director.AcceptStart(task);
  director.AdvanceWithHeartbeats(absl::Seconds(70));
  director.Restart();
  director.Connect(EngineFixture::RunningAgent("a", {director.Token(task)}));
  director.AdvanceWithHeartbeats(absl::Seconds(79));
  EXPECT_EQ(director.State(task), LifecycleState::kWorking);
  director.AdvanceWithHeartbeats(absl::Seconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kTimedOut);
}

// ---- Retention ----

TEST(EngineRecoveryTest, EndedTasksAreLimitedInNumber) {
  EngineFixture director({.retention = {.count = 2}});
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(director.Add());
    director.Advance(absl::Seconds(1));
    director.Cancel(tasks.back());
  }
  EXPECT_THAT(director.engine().views().Summarize(tasks[0]), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(director.engine().views().Summarize(tasks[1]), IsOk());
  EXPECT_THAT(director.Events(tasks[0]), IsEmpty());
  EXPECT_EQ(director.TaskStates(), director.ReloadedTaskStates());
}

TEST(EngineRecoveryTest, EndedTasksAreLimitedInTime) {
  EngineFixture director({.retention = {.age = absl::Hours(1)}});
  const core::QueueId ended = director.Add();
  const core::QueueId live = director.Add();
  director.Cancel(ended);
  director.Advance(absl::Hours(1) - absl::Seconds(1));
  EXPECT_THAT(director.engine().views().Summarize(ended), IsOk());
  director.Advance(absl::Seconds(1));
  EXPECT_THAT(director.engine().views().Summarize(ended), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(director.engine().views().Summarize(live), IsOk());
}

}  // namespace
}  // namespace callboard::director
