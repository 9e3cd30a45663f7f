// Views of the queue: explanations, status, events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::Fault;
using core::LifecycleState;
using core::TaskEvent;
using core::TaskEventKind;
using test::EngineFixture;
using test::HasReason;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Explanation Explain(EngineFixture& director, core::QueueId task) {
  return *director.engine().views().Explain(task, director.now());
}

std::vector<TaskEventKind> KindsOf(const EngineFixture& director, core::QueueId task) {
  std::vector<TaskEventKind> kinds;
  for (const TaskEvent& event : director.Events(task)) kinds.push_back(event.kind);
  return kinds;
}

std::vector<std::string> Denials(const EngineFixture& director, core::QueueId task) {
  std::vector<std::string> denials;
  for (const TaskEvent& event : director.Events(task)) {
    if (event.kind == TaskEventKind::kDenied) denials.push_back(event.why);
  }
  return denials;
}

std::string WhyNot(EngineFixture& director, core::QueueId task, const std::string& agent) {
  for (const Explanation::AgentFit& fit : Explain(director, task).agents) {
    if (fit.agent == agent) return fit.fits ? "fits" : fit.why_not;
  }
  return "unknown";
}

// ---- Explain ----

TEST(EngineExplainTest, UnknownTaskIsNotFound) {
  EngineFixture director;
  EXPECT_THAT(director.engine().views().Explain(core::QueueId(), director.now()),
              HasReason("TASK_NOT_FOUND"));
}

TEST(EngineExplainTest, EveryAgentIsExplained) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("lane");
  agent.lanes = {{"build", {.slots = 1, .used = 0}}};
  director.Connect(agent);
  for (const std::string name : {"label", "busy", "drained", "silent", "suspect", "gone"}) {
    agent = EngineFixture::IdleAgent(name);
    if (name != "label") agent.labels = {{"gpu", "yes"}};
    if (name == "busy") agent.lanes["default"].used = 1;
    if (name == "suspect") agent.labels["is"] = "suspect";
    director.Connect(agent);
  }
  director.DrainAgent("drained");
  director.BreakSession("gone");
  director.Advance(absl::Seconds(31));
  for (const std::string name : {"lane", "label", "busy", "drained", "suspect"}) {
    director.SendHeartbeat(name, {});
  }
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.required_labels = {{"is", "suspect"}};
  director.FailStartWrite(director.Add(submission));
  submission.spec.terms.required_labels = {{"gpu", "yes"}};
  const core::QueueId task = director.Add(submission);
  EXPECT_EQ(WhyNot(director, task, "lane"), "has no lane default");
  EXPECT_EQ(WhyNot(director, task, "label"), "lacks the label gpu=yes");
  EXPECT_EQ(WhyNot(director, task, "busy"), "busy");
  EXPECT_EQ(WhyNot(director, task, "drained"), "draining");
  EXPECT_EQ(WhyNot(director, task, "silent"), "silent");
  EXPECT_EQ(WhyNot(director, task, "suspect"), "suspect");
  EXPECT_EQ(WhyNot(director, task, "gone"), "not connected");
  EXPECT_THAT(Explain(director, task).summary, HasSubstr("no agent can take the task"));
}

TEST(EngineExplainTest, AgentOfTheSessionIsExplained) {
  EngineFixture director;
  director.Connect("a");
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.session_id = "s";
  const core::QueueId first = director.Add(submission);
  director.AcceptStart(first);
  director.Connect("b");
  const core::QueueId waiting = director.Add(submission);
  EXPECT_EQ(WhyNot(director, waiting, "b"), "the task's session belongs to agent a")
      << "while it works there";
  director.Cancel(waiting);
  director.FinishRun(first);
  director.AcceptStart(director.Add());
  const core::QueueId second = director.Add(submission);
  EXPECT_EQ(WhyNot(director, second, "a"), "busy");
  EXPECT_EQ(WhyNot(director, second, "b"), "the task's session belongs to agent a");
}

TEST(EngineExplainTest, CordonIsExplained) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::UnauthenticatedError(""));
  EXPECT_EQ(WhyNot(director, task, "a"), "cordoned");
}

TEST(EngineExplainTest, PositionCountsAllAheadAndReadyAheadOnlyTheReadyOnes) {
  EngineFixture director;
  core::SessionOpened busy = EngineFixture::IdleAgent("a");
  busy.lanes["default"].used = 1;
  director.Connect(busy);
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  director.Add(later);
  director.Add();
  const core::QueueId task = director.Add();
  const Explanation explanation = Explain(director, task);
  EXPECT_EQ(explanation.position, 3u);
  EXPECT_EQ(explanation.ready_ahead, 1u);
}

TEST(EngineExplainTest, BackoffAndDelayHaveATime) {
  EngineFixture director;
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  EXPECT_EQ(Explain(director, director.Add(later)).not_before, later.spec.earliest_start_at);
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task,
                       base::WithRetryAfter(absl::UnavailableError("down"), absl::Minutes(1)));
  EXPECT_EQ(Explain(director, task).not_before, director.now().wall + absl::Minutes(1));
  EXPECT_THAT(Explain(director, task).summary, HasSubstr("down"));
}

TEST(EngineExplainTest, SummaryNamesPauseAndTheSession) {
  EngineFixture director;
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.session_id = "s";
  const core::QueueId first = director.Add(submission);
  const core::QueueId second = director.Add(submission);
  EXPECT_THAT(Explain(director, second).summary, HasSubstr(ToString(first)));
  director.Call(&DirectorEngine::Pause);
  EXPECT_THAT(Explain(director, second).summary, HasSubstr("paused"));
}

TEST(EngineExplainTest, EstimateComesFromTheMeasuredRate) {
  EngineFixture director;
  director.Add();
  const core::QueueId task = director.Add();
  EXPECT_FALSE(Explain(director, task).estimated_start_at.has_value()) << "no rate was measured";
  director.Connect("a");
  const double rate = director.engine().views().Status(director.now()).drain_rate_per_second;
  ASSERT_GT(rate, 0);
  EXPECT_EQ(Explain(director, task).estimated_start_at,
            director.now().wall + absl::Seconds(1 / rate));
}

TEST(EngineExplainTest, StartedAndEndedTasksAreExplained) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_THAT(Explain(director, task).summary, HasSubstr("dispatched to a"));
  EXPECT_EQ(Explain(director, task).state, LifecycleState::kDispatching);
  director.FinishRun(task);
  EXPECT_THAT(Explain(director, task).summary, HasSubstr("finished"));
}

// ---- Status ----

TEST(EngineExplainTest, StatusCountsEverything) {
  EngineFixture director({.queue = {.max_size = 4}});
  director.Connect("a");
  const core::QueueId done = director.Add();
  director.FinishRun(done);
  director.AcceptStart(director.Add());
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  later.spec.terms.source = core::TaskSource::kScheduler;
  director.Add(later);
  director.Advance(absl::Seconds(3));
  director.Add();
  director.Add();
  director.GrantTicket();
  director.AddWaiter();
  director.Call(&DirectorEngine::Pause);
  const core::QueueStatus status = director.engine().views().Status(director.now());
  EXPECT_EQ(status.counts, (core::StateCounts{.pending = 3, .working = 1, .completed = 1}));
  EXPECT_EQ(status.ready, 0u) << "nothing starts while the queue is paused";
  EXPECT_EQ(status.delayed, 1u);
  EXPECT_EQ(status.waiting, 1u);
  EXPECT_EQ(status.tickets, 1u);
  EXPECT_EQ(status.max_in_flight, 1u);
  EXPECT_EQ(status.dispatches_total, 2u);
  EXPECT_EQ(status.oldest_age, absl::Seconds(3));
  EXPECT_TRUE(status.paused);
  EXPECT_FALSE(status.draining);
  EXPECT_EQ(status.sources.at("scheduler").queued, 1u);
  EXPECT_EQ(status.sources.at("api").running, 1u);
}

TEST(EngineExplainTest, TaskIsReadyWhenItStartsWithTheNextFreeSlot) {
  EngineFixture director;
  director.Connect("a");
  director.AcceptStart(director.Add());
  const core::QueueId task = director.Add();
  const auto ready = [&] {
    const core::QueueStatus status = director.engine().views().Status(director.now());
    EXPECT_EQ(status.ready, director.engine().views().IsReady(task) ? 1u : 0u);
    EXPECT_EQ(director.engine().views().List({.ready = true}).tasks.size(), status.ready);
    return status.ready == 1;
  };
  EXPECT_TRUE(ready());
  director.Call(&DirectorEngine::Pause);
  EXPECT_FALSE(ready()) << "paused";
  director.Call(&DirectorEngine::Resume);
  director.DrainAgent("a");
  EXPECT_FALSE(ready()) << "its only agent is drained";
  director.UndrainAgent("a");
  EXPECT_TRUE(ready());
  director.BreakSession("a");
  EXPECT_FALSE(ready()) << "no agent is connected";
}

TEST(EngineExplainTest, TasksWithoutAnAgentAreNotReadyAndHaveNoEstimate) {
  EngineFixture director;
  director.Connect("a");
  director.FinishRun(director.Add());
  director.AcceptStart(director.Add());
  core::Submission elsewhere = EngineFixture::Prompt();
  elsewhere.spec.terms.lane = "gpu";
  const core::QueueId unserved = director.Add(elsewhere);
  const core::QueueId next = director.Add();
  EXPECT_EQ(director.engine().views().Status(director.now()).ready, 1u);
  const auto explain = [&](core::QueueId id) {
    return *director.engine().views().Explain(id, director.now());
  };
  EXPECT_EQ(explain(unserved).summary, "no connected agent serves the lane and labels of the task");
  EXPECT_EQ(explain(unserved).estimated_start_at, std::nullopt);
  EXPECT_EQ(explain(next).ready_ahead, 0u) << "a task without an agent is not ahead";
  EXPECT_NE(explain(next).estimated_start_at, std::nullopt);
  director.Call(&DirectorEngine::Pause);
  EXPECT_EQ(explain(next).summary, "the queue is paused");
  EXPECT_EQ(explain(next).estimated_start_at, std::nullopt);
}

TEST(EngineExplainTest, DelayedCountsTasksBeforeTheirTime) {
  EngineFixture director;
  const auto delayed = [&] { return director.engine().views().Status(director.now()).delayed; };
  core::Submission of_session = EngineFixture::Prompt();
  of_session.spec.session_id = "s";
  const core::QueueId first = director.Add(of_session);
  director.Add(of_session);
  EXPECT_EQ(delayed(), 0u) << "a task that waits for its session is not delayed";
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  director.Add(later);
  const core::QueueId cancelled = director.Add(later);
  EXPECT_EQ(delayed(), 2u);
  director.Cancel(cancelled);
  EXPECT_EQ(delayed(), 1u);
  director.Advance(absl::Hours(1));
  EXPECT_EQ(delayed(), 0u);
  director.Connect("a");
  director.AnswerStart(first, absl::UnavailableError("try later"));
  EXPECT_EQ(delayed(), 1u) << "it is in backoff";
  director.Kick();
  EXPECT_EQ(delayed(), 0u);
}

TEST(EngineExplainTest, DispatchCountSurvivesForgottenTasksAndRestarts) {
  EngineFixture director({.retention = {.count = 1}});
  director.Connect("a");
  for (int i = 0; i < 3; ++i) director.FinishRun(director.Add());
  const core::QueueId task = director.Add();
  director.AnswerBusy(task);
  director.ReportLoad("a", 0);
  const auto total = [&] {
    return director.engine().views().Status(director.now()).dispatches_total;
  };
  EXPECT_EQ(total(), 5u);
  director.Restart();
  EXPECT_EQ(total(), 5u);
  EXPECT_EQ(director.engine().views().Status(director.now()).in_flight(), 1u);
}

// ---- Events ----

TEST(EngineExplainTest, EventsHaveActorReasonFaultAndPositions) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  director.AnswerBusy(task);
  const std::vector<TaskEvent> events = director.Events(task);
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].kind, TaskEventKind::kAdmitted);
  EXPECT_EQ(events[0].who, "me");
  EXPECT_EQ(events[0].place_before, 0u);
  EXPECT_EQ(events[0].place_after, 1u);
  EXPECT_EQ(events[1].kind, TaskEventKind::kDispatching);
  EXPECT_EQ(events[1].who, "director");
  EXPECT_EQ(events[1].agent, "a");
  EXPECT_EQ(events[1].dispatch, core::DispatchNumber(1));
  EXPECT_EQ(events[1].place_before, 1u);
  EXPECT_EQ(events[1].place_after, 0u);
  EXPECT_EQ(events[2].kind, TaskEventKind::kBusy);
  EXPECT_EQ(events[2].who, "a");
  EXPECT_THAT(events[2].why, HasSubstr("busy"));
  EXPECT_EQ(events[2].fault, Fault::kAgent);
  EXPECT_EQ(events[2].place_before, 0u);
  EXPECT_EQ(events[2].place_after, 2u) << "behind the other task";
  EXPECT_EQ(director.Task(other).position, 1u);
}

TEST(EngineExplainTest, EndEventsHaveTheFault) {
  EngineFixture director({.queue = {.max_size = 1, .allow_evict = true}});
  core::Submission evicting = EngineFixture::Prompt();
  evicting.policy = core::QueuePolicy::kDropOldest;
  const core::QueueId evicted = director.Add();
  const core::QueueId cancelled = director.Add(evicting);
  director.Cancel(cancelled, "you");
  director.Connect("a");
  const core::QueueId failed = director.Add();
  director.AcceptStart(failed);
  director.FinishRun(failed, {.end = core::RunResult::End::kFailed, .exit_code = 7});
  const core::QueueId lost = director.Add();
  director.AcceptStart(lost);
  director.BreakSession("a");
  director.Advance(absl::Seconds(75));

  const TaskEvent eviction = director.Events(evicted).back();
  EXPECT_EQ(eviction.kind, TaskEventKind::kEvicted);
  EXPECT_EQ(eviction.who, "me");
  EXPECT_EQ(eviction.fault, Fault::kCaller);
  EXPECT_EQ(eviction.place_before, 1u);
  const TaskEvent cancel = director.Events(cancelled).back();
  EXPECT_EQ(cancel.kind, TaskEventKind::kCancelled);
  EXPECT_EQ(cancel.who, "you");
  EXPECT_EQ(cancel.fault, Fault::kCaller);
  const TaskEvent failure = director.Events(failed).back();
  EXPECT_EQ(failure.kind, TaskEventKind::kFailed);
  EXPECT_THAT(failure.why, HasSubstr("7"));
  EXPECT_EQ(failure.fault, Fault::kTask);
  EXPECT_EQ(failure.dispatch, core::DispatchNumber(1));
  const TaskEvent loss = director.Events(lost).back();
  EXPECT_EQ(loss.who, "director");
  EXPECT_EQ(loss.fault, Fault::kAgent);
}

TEST(EngineExplainTest, CancelOfARunHasActorAndReason) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.Cancel(task, "you");
  const TaskEvent request = director.Events(task).back();
  EXPECT_EQ(request.kind, TaskEventKind::kCancelRequested);
  EXPECT_EQ(request.who, "you");
  EXPECT_EQ(request.why, "no reason was given");
  EXPECT_EQ(request.fault, Fault::kCaller);
  EXPECT_EQ(request.agent, "a");
  director.FinishRun(task, {.end = core::RunResult::End::kCancelled});
  const TaskEvent ended = director.Events(task).back();
  EXPECT_EQ(ended.kind, TaskEventKind::kCancelled);
  EXPECT_EQ(ended.who, "a");
  EXPECT_EQ(ended.why, "the run has ended");
  EXPECT_EQ(ended.fault, Fault::kCaller);
}

TEST(EngineExplainTest, StartThatFailedWithoutAnErrorIsExplained) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AcceptStart(task);
  director.FinishRun(task, {.end = core::RunResult::End::kNotStarted});
  const TaskEvent retry = director.Events(task).back();
  EXPECT_EQ(retry.kind, TaskEventKind::kRetry);
  EXPECT_EQ(retry.why, "the agent could not start the task");
  EXPECT_EQ(retry.fault, Fault::kAgent);
}

TEST(EngineExplainTest, EventsShowTheHistoryOfATask) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.AnswerStart(task, absl::UnavailableError(""));
  director.AdvanceWithHeartbeats(absl::Seconds(5));
  director.AcceptStart(task);
  director.Cancel(task);
  director.FinishRun(task, {.end = core::RunResult::End::kCancelled});
  EXPECT_THAT(
      KindsOf(director, task),
      ElementsAre(TaskEventKind::kAdmitted, TaskEventKind::kDispatching, TaskEventKind::kRetry,
                  TaskEventKind::kDispatching, TaskEventKind::kRunning,
                  TaskEventKind::kCancelRequested, TaskEventKind::kCancelled));
}

// ---- Denials ----

TEST(EngineExplainTest, DenialIsRecordedForTheFirstTaskOfAGroupOnly) {
  EngineFixture director;
  const core::QueueId head = director.Add();
  const core::QueueId behind = director.Add();
  core::Submission build = EngineFixture::Prompt();
  build.spec.terms.lane = "build";
  const core::QueueId other_group = director.Add(build);
  EXPECT_THAT(Denials(director, head), SizeIs(1));
  EXPECT_THAT(Denials(director, behind), IsEmpty());
  EXPECT_THAT(Denials(director, other_group), SizeIs(1));
}

TEST(EngineExplainTest, DenialIsRecordedAgainOnlyWhenItsReasonChanges) {
  EngineFixture director;
  const core::QueueId head = director.Add();
  ASSERT_THAT(Denials(director, head), SizeIs(1));
  director.Advance(absl::Minutes(5));
  director.Add();
  EXPECT_THAT(Denials(director, head), SizeIs(1));
  core::SessionOpened busy = EngineFixture::IdleAgent("a");
  busy.lanes["default"].used = 1;
  director.Connect(busy);
  EXPECT_THAT(Denials(director, head), ElementsAre(HasSubstr("is busy")));
  const size_t before = director.records_written();
  director.ReportLoad("a", /*used=*/1);
  EXPECT_EQ(director.records_written(), before);
}

TEST(EngineExplainTest, ReconnectingAgentLeavesOneDenial) {
  EngineFixture director;
  const core::QueueId head = director.Add();
  core::SessionOpened busy = EngineFixture::IdleAgent("a");
  busy.lanes["default"].used = 1;
  for (int i = 0; i < 20; ++i) {
    director.Connect(busy);
    director.BreakSession("a");
  }
  EXPECT_THAT(Denials(director, head), SizeIs(1));
  EXPECT_EQ(director.TaskStates(), director.ReloadedTaskStates());
}

TEST(EngineExplainTest, StalledQueueHasNoEstimate) {
  EngineFixture director;
  director.Connect("a");
  director.FinishRun(director.Add());
  director.ReportLoad("a", /*used=*/1);
  const core::QueueId task = director.Add();
  EXPECT_NE(Explain(director, task).estimated_start_at, std::nullopt);
  director.Advance(absl::Hours(2));
  EXPECT_EQ(Explain(director, task).estimated_start_at, std::nullopt);
}

TEST(EngineExplainTest, NextTaskIsNotDeniedForARecordedReason) {
  EngineFixture director;
  director.Connect("a");
  director.AcceptStart(director.Add());
  const core::QueueId second = director.Add();
  const core::QueueId third = director.Add();
  ASSERT_THAT(Denials(director, second), ElementsAre(HasSubstr("is busy")));
  director.Cancel(second);
  EXPECT_THAT(Denials(director, third), IsEmpty());
}

TEST(EngineExplainTest, DenialDuringAPauseIsRecordedAfterIt) {
  EngineFixture director;
  director.Call(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  EXPECT_THAT(Denials(director, task), IsEmpty());
  director.Call(&DirectorEngine::Resume);
  EXPECT_THAT(Denials(director, task), SizeIs(1));
}

// ---- Kick ----

TEST(EngineExplainTest, KickEndsBackoffsAndSuspicionsButNotDelays) {
  EngineFixture director;
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  const core::QueueId backing_off = director.Add();
  director.FailStartWrite(backing_off);
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  const core::QueueId delayed = director.Add(later);
  const core::QueueId waits = director.Add();
  ASSERT_THAT(director.PendingTasks(), SizeIs(3));
  const KickResult result = director.Kick();
  EXPECT_EQ(result.backoffs, 1u);
  EXPECT_EQ(result.suspicions, 1u);
  EXPECT_EQ(director.State(backing_off), LifecycleState::kDispatching);
  EXPECT_EQ(director.State(waits), LifecycleState::kDispatching);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(delayed));
  EXPECT_EQ(director.Kick().backoffs, 0u) << "nothing is left to end";
}

}  // namespace
}  // namespace callboard::director
