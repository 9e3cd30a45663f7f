// What survives a restart, and what agents and director make of each other after one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_tasks.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::FenceToken;
using core::RunResult;
using core::TaskEventKind;
using core::TaskState;
using test::EngineFixture;
using test::HasReason;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission Retried() {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.retry_on = {*core::ParseRetryRule("exit:*")};
  return submission;
}

// ---- The book ----

TEST(EngineRecoveryTest, RestartReproducesTheOrderOfTheLineExactly) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  const core::QueueId bounced = director.Add();
  const core::QueueId backing_off = director.Add();
  const core::QueueId lost = director.Add(EngineFixture::Requeued());
  const core::QueueId fresh = director.Add();
  director.Tell(&DirectorEngine::Pause);
  director.RefuseAsBusy(bounced);
  director.Answer(backing_off, absl::UnavailableError(""));
  director.Accept(lost);
  director.Break("a");
  director.StepWall(-absl::Hours(2));
  const core::QueueId newest = director.Add();
  director.Advance(absl::Seconds(75));
  const std::vector<core::QueueId> line = director.Line();
  ASSERT_THAT(line, ElementsAre(backing_off, lost, fresh, bounced, newest));
  director.Restart();
  EXPECT_EQ(director.Line(), line);
}

TEST(EngineRecoveryTest, RecordThatNoDirectorCanHaveWrittenIsNotTaken) {
  test::FakeRandom random;
  DirectorEngine engine({}, random);
  core::TaskRecord record = {.change = core::Noted{}};
  record.number = 2;
  const absl::Status status = engine.Recover(record);
  EXPECT_THAT(status, test::StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(status, HasReason("STORE_REFUSED"));
  EXPECT_EQ(engine.book().Find(record.queue_id), nullptr);
}

TEST(EngineRecoveryTest, PlaceInLineIsNotTakenTwice) {
  test::FakeRandom random;
  DirectorEngine engine({}, random);
  ASSERT_THAT(engine.Recover(test::StoredAdmission(1)), IsOk());
  core::TaskRecord other = test::StoredAdmission(2);
  std::get<core::Admitted>(other.change).sequence = 1;
  EXPECT_THAT(engine.Recover(other), HasReason("STORE_REFUSED"));
}

TEST(EngineRecoveryTest, EpochThatDoesNotGrowIsNotTaken) {
  test::FakeRandom random;
  DirectorEngine engine({}, random);
  EXPECT_THAT(engine.Recover(core::EpochBegan{0}), HasReason("STORE_REFUSED"));
  EXPECT_THAT(engine.Recover(core::EpochBegan{1}), IsOk());
}

TEST(EngineRecoveryTest, MemoryEqualsWhatTheStoreWouldReload) {
  EngineFixture director;
  for (const std::string name : {"a", "b"}) {
    core::AgentOpened agent = EngineFixture::Knowing(name);
    agent.lanes["default"].slots = 20;
    director.Connect(agent);
  }
  const auto equal = [&director] { return director.Lives() == director.ReloadedLives(); };
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 16; ++i)
    tasks.push_back(director.Add(i % 2 == 0 ? EngineFixture::Requeued() : Retried()));
  EXPECT_TRUE(equal());
  director.RefuseAsBusy(tasks[0]);
  director.Answer(tasks[1], absl::UnavailableError("down"));
  director.Answer(tasks[2], absl::InvalidArgumentError("no"));
  director.Answer(tasks[3], absl::PermissionDeniedError("who?"));
  director.LoseStart(tasks[4]);
  EXPECT_TRUE(equal());
  for (int i = 5; i < 12; ++i) director.Accept(tasks[i]);
  director.Finish(tasks[5], {.end = RunResult::End::kFailed, .exit_code = 3, .result = "partly"});
  director.Finish(tasks[6], {.exit_code = 0, .result = "all"});
  director.Finish(tasks[7], {.end = RunResult::End::kTimedOut});
  director.Finish(tasks[8], {.end = RunResult::End::kCancelled});
  EXPECT_TRUE(equal());
  director.Cancel(tasks[9]);
  director.Cancel(tasks[13]);
  director.Cancel(tasks[0]);
  EXPECT_TRUE(equal());
  director.Break("a");
  director.Advance(absl::Minutes(3));
  EXPECT_TRUE(equal());
  director.Restart();
  EXPECT_TRUE(equal());
  director.Connect("b");
  director.AdvanceBeating(absl::Minutes(10));
  EXPECT_TRUE(equal());
}

TEST(EngineRecoveryTest, FromTheFifthBounceOnRecordsReplaceEachOther) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  size_t events = 0;
  for (int bounce = 1; bounce <= 40; ++bounce) {
    director.RefuseAsBusy(task);
    EXPECT_EQ(director.Lives(), director.ReloadedLives()) << bounce;
    if (bounce == 5) events = director.Events(task).size();
    if (bounce > 5) {
      EXPECT_EQ(director.Events(task).size(), events) << bounce;
    }
    director.Beat("a", {});
    director.Report("a", /*used=*/0);
    EXPECT_EQ(director.Lives(), director.ReloadedLives()) << bounce;
  }
  director.Restart();
  EXPECT_EQ(director.Task(task).busy_rejections, 40u);
  EXPECT_EQ(director.Task(task).dispatch, core::DispatchNumber(41));
  EXPECT_EQ(director.Events(task).back().kind, TaskEventKind::kDispatching);
}

TEST(EngineRecoveryTest, NumbersOfEventsOnlyGrowAlsoWhereRecordsAreReplacedAndOverRestarts) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(director.Events(task).front().number, 2u) << "that it was submitted is the first";
  uint64_t last = director.Events(task).back().number;
  for (int bounce = 1; bounce <= 8; ++bounce) {
    director.RefuseAsBusy(task);
    EXPECT_GT(director.Events(task).back().number, last) << bounce;
    last = director.Events(task).back().number;
    if (bounce == 6) {
      director.Restart();
      director.Connect("a");
    } else {
      director.Beat("a", {});
      director.Report("a", /*used=*/0);
    }
    EXPECT_GT(director.Events(task).back().number, last) << bounce;
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
  EXPECT_EQ(director.Token(task), before) << "the dispatch is still that one's";
  director.Connect("a");
  EXPECT_EQ(director.Token(task),
            (FenceToken{task, core::DispatchNumber(2), director.engine().epoch()}));
}

TEST(EngineRecoveryTest, NewStoreBeginsAtUnixSeconds) {
  EngineFixture director;
  EXPECT_EQ(director.engine().epoch(),
            static_cast<uint64_t>(absl::ToUnixSeconds(director.now().wall)));
}

TEST(EngineRecoveryTest, WhoSetASwitchWhyAndWhenIsKeptUntilItEnds) {
  EngineFixture director;
  const auto status = [&director] { return director.engine().Status(director.now()); };
  EXPECT_EQ(status().pause, std::nullopt);
  director.Tell(&DirectorEngine::Pause, "the disk is full");
  const core::SwitchCause paused = {"me", "the disk is full", director.now().wall};
  director.Advance(absl::Seconds(1));
  director.Tell(&DirectorEngine::Drain, "an upgrade");
  const core::SwitchCause drained = {"me", "an upgrade", director.now().wall};
  director.Advance(absl::Seconds(1));
  director.Tell(&DirectorEngine::Pause, "once more");
  director.Restart();
  EXPECT_EQ(status().pause, paused) << "a repeated pause changes nothing";
  EXPECT_EQ(status().drain, drained);
  director.Tell(&DirectorEngine::Resume);
  director.Restart();
  EXPECT_EQ(status().pause, std::nullopt);
  EXPECT_EQ(status().drain, std::nullopt);
}

TEST(EngineRecoveryTest, PauseAndDrainSurvive) {
  EngineFixture director;
  director.Tell(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  director.Tell(&DirectorEngine::Drain);
  director.Restart();
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kPending);
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), HasReason("QUEUE_DRAINING"));
  director.Tell(&DirectorEngine::Resume);
  director.Restart();
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineRecoveryTest, DrainedAgentStaysDrained) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a");
  director.Restart();
  director.Advance(absl::Minutes(1));
  core::AgentOpened reborn = EngineFixture::Knowing("a");
  reborn.instance_id = "a/2";
  director.Connect(reborn);
  EXPECT_EQ(director.State(director.Add()), TaskState::kPending);
}

TEST(EngineRecoveryTest, CordonedAgentStaysSoUntilItIsANewInstance) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, absl::UnauthenticatedError(""));
  director.Restart();
  director.Advance(absl::Minutes(1));
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kPending);
  core::AgentOpened reborn = EngineFixture::Knowing("a");
  reborn.instance_id = "a/2";
  director.Connect(reborn);
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
  director.Restart();
  EXPECT_THAT(director.engine().book().marked_agents(), IsEmpty());
}

// One accident is not three failures.
TEST(EngineRecoveryTest, AgentThatLostSeveralTasksAtOnceIsNotCordoned) {
  EngineFixture director;
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  for (int i = 0; i < 3; ++i) director.Accept(director.Add());
  director.Break("a");
  agent.instance_id = "a/2";
  director.Connect(agent);
  EXPECT_EQ(director.State(director.Add()), TaskState::kDispatching);
}

TEST(EngineRecoveryTest, DirectorThatGoesAwayWaitsAsLongAsItToldItsAgentsAndStartsNothing) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  const core::QueueId next = director.Add();
  director.Tell(&DirectorEngine::GoAway);
  director.Advance(absl::Minutes(5));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  director.Finish(task);
  EXPECT_EQ(director.State(next), TaskState::kPending);
}

TEST(EngineRecoveryTest, ExtensionEndsOnceEveryAgentIsHeardOfAgain) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Tell(&DirectorEngine::GoAway);
  director.Restart();
  core::AgentOpened agent = EngineFixture::Knowing("a");
  agent.running = {director.Token(task)};
  director.Connect(agent);
  director.Restart();
  director.Advance(absl::Seconds(75));
  EXPECT_EQ(director.State(task), TaskState::kFailed);
}

TEST(EngineRecoveryTest, RequestIdsSurvive) {
  EngineFixture director;
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.request_id = "r";
  const core::QueueId live = director.Add(submission);
  director.Restart();
  EXPECT_EQ(std::get<Submitted>(director.Submit(submission)).queue_id, live);
  director.Cancel(live);
  director.Restart();
  EXPECT_TRUE(std::get<Submitted>(director.Submit(submission)).deduplicated);
}

// ---- Clocks ----

TEST(EngineRecoveryTest, BackoffGoesOnWhereItWas) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Seconds(60)));
  director.AdvanceBeating(absl::Seconds(40));
  director.Restart();
  director.Connect("a");
  director.AdvanceBeating(absl::Seconds(20) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineRecoveryTest, BackoffIsNeverLongerThanItWasWhateverTheWallClockSays) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Answer(task, base::WithRetryAfter(absl::UnavailableError(""), absl::Seconds(60)));
  director.StepWall(-absl::Hours(3));
  director.Restart();
  director.Connect("a");
  director.AdvanceBeating(absl::Seconds(59));
  EXPECT_EQ(director.State(task), TaskState::kPending);
  director.Advance(absl::Seconds(1));
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineRecoveryTest, EveryLeaseBeginsAfresh) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Advance(absl::Seconds(70));
  director.Restart();
  director.Advance(absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, LeasesOfADirectorThatSaidItGoesAwayLastFiveMinutesLonger) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Tell(&DirectorEngine::GoAway);
  const std::vector<core::GoingAway> said = director.TakeSaid<core::GoingAway>();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(said[0].extension, absl::Minutes(5));
  director.Restart();
  director.Advance(absl::Minutes(5) + absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, LeaseOfAnAgentThatIsGoneIsNotExtendedTwice) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Tell(&DirectorEngine::GoAway);
  director.Restart();
  director.Tell(&DirectorEngine::GoAway);
  director.Advance(absl::Minutes(5) + absl::Seconds(75) - absl::Milliseconds(1));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  director.Advance(absl::Milliseconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, FirstHeartbeatMakesAnExtendedLeaseNormal) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Accept(task);
  director.Tell(&DirectorEngine::GoAway);
  director.Restart();
  director.Connect(EngineFixture::Running("a", {director.Token(task)}));
  director.Beat("a", {director.Token(task)});
  director.Break("a");
  director.Advance(absl::Seconds(75));
  EXPECT_EQ(director.Reason(task), FailureReason::kAgentLost);
}

TEST(EngineRecoveryTest, GuardOverARunStartsAnew) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.timeout = absl::Seconds(10);
  const core::QueueId task = director.Add(submission);
  director.Accept(task);
  director.AdvanceBeating(absl::Seconds(70));
  director.Restart();
  director.Connect(EngineFixture::Running("a", {director.Token(task)}));
  director.AdvanceBeating(absl::Seconds(79));
  EXPECT_EQ(director.State(task), TaskState::kWorking);
  director.AdvanceBeating(absl::Seconds(1));
  EXPECT_EQ(director.Reason(task), FailureReason::kTimedOut);
}

// ---- Retention ----

TEST(EngineRecoveryTest, EndedTasksAreKeptUpToANumber) {
  EngineFixture director({.retention = {.count = 2}});
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(director.Add());
    director.Advance(absl::Seconds(1));
    director.Cancel(tasks.back());
  }
  EXPECT_THAT(director.engine().Look(tasks[0]), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(director.engine().Look(tasks[1]), IsOk());
  EXPECT_THAT(director.Events(tasks[0]), IsEmpty());
  EXPECT_EQ(director.Lives(), director.ReloadedLives());
}

TEST(EngineRecoveryTest, EndedTasksAreKeptForATime) {
  EngineFixture director({.retention = {.age = absl::Hours(1)}});
  const core::QueueId ended = director.Add();
  const core::QueueId live = director.Add();
  director.Cancel(ended);
  director.Advance(absl::Hours(1) - absl::Seconds(1));
  EXPECT_THAT(director.engine().Look(ended), IsOk());
  director.Advance(absl::Seconds(1));
  EXPECT_THAT(director.engine().Look(ended), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(director.engine().Look(live), IsOk());
}

}  // namespace
}  // namespace callboard::director
