// Admission to a full queue: policies, waiters, the scheduler's share, drain and pause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::LifecycleState;
using core::QueuePolicy;
using test::EngineFixture;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

core::Submission WithPolicy(QueuePolicy policy) {
  core::Submission submission = EngineFixture::Prompt();
  submission.policy = policy;
  return submission;
}

core::Submission FromScheduler(std::optional<QueuePolicy> policy = {}) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.source = core::TaskSource::kScheduler;
  submission.policy = policy;
  return submission;
}

EngineOptions Bounded(uint32_t max_size, QueuePolicy policy = QueuePolicy::kReject) {
  return {.queue = {.max_size = max_size, .policy = policy}};
}

void Fill(EngineFixture& director, int tasks) {
  for (int i = 0; i < tasks; ++i) director.Add();
}

MATCHER_P(IsAccepted, accepted, "") {
  return (arg != nullptr && std::holds_alternative<SubmitResult>(*arg)) == accepted;
}

bool HasRetryInfo(const absl::Status& status) {
  return base::GetErrorDetails(status).retry_after.value_or(absl::ZeroDuration()) >
         absl::ZeroDuration();
}

// ---- Policies ----

TEST(EngineAdmissionTest, DefaultBoundIsFiftyAndTheDefaultPolicyRejects) {
  EngineFixture director;
  Fill(director, 50);
  const absl::Status error = director.TrySubmit(EngineFixture::Prompt());
  EXPECT_THAT(error, AllOf(StatusIs(kExhausted, "queue is at capacity (50 tasks)"),
                           HasReason("QUEUE_FULL")));
  EXPECT_THAT(base::GetErrorDetails(error).metadata,
              ElementsAre(Pair("depth", "50"), Pair("max_size", "50"), Pair("policy", "reject")));
  EXPECT_TRUE(HasRetryInfo(error));
}

TEST(EngineAdmissionTest, BoundCountsDelayedTasksButNotRunningOnes) {
  EngineFixture director(Bounded(3));
  director.Connect("a");
  director.AnswerStart(director.Add(), absl::UnavailableError(""));
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  director.Add(later);
  director.AcceptStart(director.Add());
  director.Add();
  EXPECT_THAT(director.PendingTasks(), SizeIs(3));
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), HasReason("QUEUE_FULL"));
}

TEST(EngineAdmissionTest, UnboundedQueueRejectsNothing) {
  EngineFixture director(Bounded(0));
  Fill(director, 200);
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), IsOk());
}

TEST(EngineAdmissionTest, DropLatestRejectsTheNewTask) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropLatest));
  const core::QueueId task = director.Add();
  const absl::Status error = director.TrySubmit(EngineFixture::Prompt());
  EXPECT_THAT(error, AllOf(StatusIs(kExhausted), HasReason("QUEUE_FULL")));
  EXPECT_THAT(base::GetErrorDetails(error).metadata, Contains(Pair("policy", "drop-latest")));
  EXPECT_TRUE(HasRetryInfo(error));
  EXPECT_THAT(director.PendingTasks(), ElementsAre(task));
}

TEST(EngineAdmissionTest, DropOldestEvictsTheFirstTaskThatWasNeverDispatched) {
  EngineFixture director(Bounded(3, QueuePolicy::kDropOldest));
  director.Connect("a");
  const core::QueueId dispatched = director.Add();
  director.AnswerStart(dispatched, absl::UnauthenticatedError(""));
  const core::QueueId oldest = director.Add();
  const core::QueueId second = director.Add();
  const core::QueueId new_task = director.Add();
  EXPECT_EQ(director.Reason(oldest), FailureReason::kEvicted);
  EXPECT_THAT(director.Events(oldest).back().why, testing::EndsWith(ToString(new_task)));
  EXPECT_THAT(director.PendingTasks(), ElementsAre(dispatched, second, new_task));
}

TEST(EngineAdmissionTest, DropOldestWithNothingToEvictRejects) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropOldest));
  director.Connect("a");
  director.AnswerStart(director.Add(), absl::UnauthenticatedError(""));
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()),
              AllOf(StatusIs(kExhausted), HasReason("QUEUE_FULL")));
}

TEST(EngineAdmissionTest, SubmitMayAskForAnotherPolicy) {
  EngineFixture director(Bounded(1, QueuePolicy::kBlock));
  director.Add();
  EXPECT_THAT(director.TrySubmit(WithPolicy(QueuePolicy::kReject)), HasReason("QUEUE_FULL"));
  EXPECT_TRUE(std::holds_alternative<WaiterId>(director.Submit(EngineFixture::Prompt())));
}

TEST(EngineAdmissionTest, SubmitMayAskForDropOldestOnlyWhereItIsAllowed) {
  EngineFixture strict(Bounded(1));
  const core::QueueId task = strict.Add();
  EXPECT_FALSE(strict.TrySubmit(WithPolicy(QueuePolicy::kDropOldest)).ok());
  EXPECT_THAT(strict.PendingTasks(), ElementsAre(task));

  EngineFixture lenient({.queue = {.max_size = 1, .allow_evict = true}});
  const core::QueueId victim = lenient.Add();
  EXPECT_THAT(lenient.TrySubmit(WithPolicy(QueuePolicy::kDropOldest)), IsOk());
  EXPECT_EQ(lenient.Reason(victim), FailureReason::kEvicted);
}

// ---- Waiters ----

TEST(EngineAdmissionTest, WaitersAreAdmittedInTheOrderOfTheirArrival) {
  EngineFixture director(Bounded(1));
  director.Add();
  const WaiterId first = director.AddWaiter(EngineFixture::Prompt("first"));
  const WaiterId second = director.AddWaiter(EngineFixture::Prompt("second"));
  director.Connect("a");
  ASSERT_THAT(director.DecisionFor(first), IsAccepted(true));
  EXPECT_THAT(director.DecisionFor(second), IsAccepted(false));
  const auto& admitted = std::get<SubmitResult>(*director.DecisionFor(first));
  EXPECT_EQ(admitted.state, LifecycleState::kPending);
  EXPECT_EQ(admitted.position, 1u);
  director.Cancel(admitted.queue_id);
  EXPECT_THAT(director.DecisionFor(second), IsAccepted(true));
}

TEST(EngineAdmissionTest, WaiterBoundsAreInNumberAndInBytes) {
  EngineFixture few({.queue = {.max_size = 1, .max_waiters = 1}});
  few.Add();
  few.AddWaiter();
  const absl::Status error = few.TrySubmit(WithPolicy(QueuePolicy::kBlock));
  EXPECT_THAT(error, AllOf(StatusIs(kExhausted), HasReason("TOO_MANY_WAITERS")));
  EXPECT_TRUE(HasRetryInfo(error));
  EXPECT_EQ(error.message(),
            "too many callers wait for a place (1 of 1, setting queue.max_waiters)");
  EXPECT_THAT(EngineFixture::ErrorOf(few.Reserve()), HasReason("TOO_MANY_WAITERS"));

  EngineFixture small({.queue = {.max_size = 1, .max_waiting_bytes = 1 << 20}});
  small.Add();
  small.AddWaiter(EngineFixture::Prompt(std::string(900'000, 'x')));
  core::Submission large = WithPolicy(QueuePolicy::kBlock);
  large.spec.bytes = test::SpecBytesOf(std::string(200'000, 'x'));
  const absl::Status too_large = small.TrySubmit(large);
  EXPECT_THAT(too_large, HasReason("TOO_MANY_WAITERS"));
  EXPECT_EQ(base::GetErrorDetails(too_large).metadata.at("bound"), "queue.max_waiting_bytes");
  EXPECT_THAT(std::string(too_large.message()), testing::HasSubstr("of 1048576 bytes"));
}

TEST(EngineAdmissionTest, CancelledWaitMakesRoomForAnotherWaiter) {
  EngineFixture director({.queue = {.max_size = 1, .max_waiters = 1}});
  director.Add();
  director.CancelWait(director.AddWaiter());
  const WaiterId next = director.AddWaiter();
  director.Connect("a");
  EXPECT_THAT(director.DecisionFor(next), IsAccepted(true));
}

TEST(EngineAdmissionTest, WaiterThatLeavesAfterAdmissionKeepsItsTask) {
  EngineFixture director(Bounded(1));
  core::Submission submission = EngineFixture::Prompt();
  const core::QueueId first = director.Add();
  submission.spec.request_id = "r";
  const WaiterId waiter = director.AddWaiter(submission);
  director.Cancel(first);
  director.CancelWait(waiter);
  const auto again = std::get<SubmitResult>(director.Submit(submission));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(again.queue_id));
}

TEST(EngineAdmissionTest, PausedQueueKeepsWaiters) {
  EngineFixture director(Bounded(1));
  director.Call(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.Connect("a");
  EXPECT_EQ(director.DecisionFor(waiter), nullptr);
  director.Cancel(task);
  EXPECT_THAT(director.DecisionFor(waiter), IsAccepted(true))
      << "a place is free although the queue is paused";
}

TEST(EngineAdmissionTest, RequeuedTasksMayExceedTheBound) {
  EngineFixture director(Bounded(1));
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.AnswerBusy(task);
  EXPECT_THAT(director.PendingTasks(), SizeIs(2));
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), HasReason("QUEUE_FULL"));
  director.Cancel(task);
  EXPECT_EQ(director.DecisionFor(waiter), nullptr) << "the queue is only back at its bound";
  director.Cancel(director.PendingTasks().front());
  EXPECT_THAT(director.DecisionFor(waiter), IsAccepted(true));
}

TEST(EngineAdmissionTest, DropOldestAboveTheBoundStillEvictsOnlyOne) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropOldest));
  director.Connect("a");
  const core::QueueId busy_task = director.Add();
  const core::QueueId fresh = director.Add();
  director.AnswerBusy(busy_task);
  const core::QueueId new_task = director.Add();
  EXPECT_EQ(director.Reason(fresh), FailureReason::kEvicted);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(busy_task, new_task));
}

// ---- The scheduler's share ----

TEST(EngineAdmissionTest, SchedulerMayUseFourFifthsOfTheQueue) {
  EngineFixture director;
  for (int i = 0; i < 40; ++i) director.Add(FromScheduler());
  const absl::Status error = director.TrySubmit(FromScheduler());
  EXPECT_THAT(error, AllOf(StatusIs(kExhausted, "scheduler share is used up (40 of 50 tasks)"),
                           HasReason("QUEUE_FULL")));
  EXPECT_TRUE(HasRetryInfo(error));
  const auto metadata = base::GetErrorDetails(error).metadata;
  EXPECT_EQ(metadata.at("share"), "40");
  EXPECT_EQ(metadata.at("share_used"), "40");
  EXPECT_EQ(metadata.at("max_size"), "50");
  EXPECT_EQ(metadata.at("depth"), "40");
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), IsOk()) << "others have the rest";
}

TEST(EngineAdmissionTest, SchedulerHasAtLeastOnePlaceAndNoLimitWithoutABound) {
  EngineFixture tiny(Bounded(1));
  EXPECT_THAT(tiny.TrySubmit(FromScheduler()), IsOk());
  EngineFixture unbounded(Bounded(0));
  for (int i = 0; i < 100; ++i) unbounded.Add(FromScheduler());
}

TEST(EngineAdmissionTest, WholeNumberShareIsExact) {
  EngineFixture director({.queue = {.max_size = 100, .scheduler_share = 0.29}});
  for (int i = 0; i < 29; ++i) director.Add(FromScheduler());
  EXPECT_THAT(director.TrySubmit(FromScheduler()), HasReason("QUEUE_FULL"));
}

TEST(EngineAdmissionTest, SchedulerOverItsShareWaitsWhileOthersAreAdmitted) {
  EngineFixture director(Bounded(2));
  const core::QueueId scheduled = director.Add(FromScheduler());
  const WaiterId waiting = director.AddWaiter(FromScheduler());
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), IsOk()) << "there is a place for others";
  const WaiterId other = director.AddWaiter();
  director.Cancel(director.PendingTasks().back());
  EXPECT_THAT(director.DecisionFor(other), IsAccepted(true));
  EXPECT_EQ(director.DecisionFor(waiting), nullptr);
  director.Cancel(scheduled);
  EXPECT_THAT(director.DecisionFor(waiting), IsAccepted(true));
}

TEST(EngineAdmissionTest, SchedulerOverItsShareEvictsItsOwnOldest) {
  EngineFixture director(Bounded(3, QueuePolicy::kDropOldest));
  const core::QueueId other = director.Add();
  const core::QueueId first = director.Add(FromScheduler());
  const core::QueueId second = director.Add(FromScheduler());
  const core::QueueId third = director.Add(FromScheduler());
  EXPECT_EQ(director.Reason(first), FailureReason::kEvicted);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(other, second, third));
}

TEST(EngineAdmissionTest, SchedulerWithoutAnythingToEvictIsRejected) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropOldest));
  director.Connect("a");
  director.AnswerStart(director.Add(FromScheduler()), absl::UnauthenticatedError(""));
  EXPECT_THAT(director.TrySubmit(FromScheduler()), HasReason("QUEUE_FULL"));
}

// ---- Drain ----

TEST(EngineAdmissionTest, DrainingQueueRejectsSubmitsWaitersAndTickets) {
  EngineFixture director(Bounded(4));
  const std::string ticket = director.GrantTicket();
  Fill(director, 3);
  const WaiterId waiter = director.AddWaiter();
  const WaiterId reserving = std::get<WaiterId>(director.Reserve("you"));
  director.Call(&DirectorEngine::Drain);
  core::Submission with_ticket = EngineFixture::Prompt();
  with_ticket.ticket = ticket;
  for (const absl::Status& error :
       {EngineFixture::ErrorOf(*director.DecisionFor(waiter)),
        EngineFixture::ErrorOf(*director.DecisionFor(reserving)),
        director.TrySubmit(EngineFixture::Prompt()), director.TrySubmit(with_ticket),
        EngineFixture::ErrorOf(director.Reserve())}) {
    EXPECT_THAT(error,
                AllOf(StatusIs(absl::StatusCode::kUnavailable), HasReason("QUEUE_DRAINING")));
    EXPECT_TRUE(HasRetryInfo(error));
  }
}

TEST(EngineAdmissionTest, DrainingQueueKeepsDispatching) {
  EngineFixture director;
  const core::QueueId task = director.Add();
  director.Call(&DirectorEngine::Drain);
  director.Connect("a");
  EXPECT_EQ(director.State(task), LifecycleState::kDispatching);
}

TEST(EngineAdmissionTest, ResumeEndsBothPauseAndDrain) {
  EngineFixture director;
  director.Connect("a");
  director.Call(&DirectorEngine::Pause);
  director.Call(&DirectorEngine::Drain);
  director.Call(&DirectorEngine::Resume);
  EXPECT_EQ(director.State(director.Add()), LifecycleState::kDispatching);
}

TEST(EngineAdmissionTest, ResumeDoesNotEndTheDrainOfAShutdown) {
  EngineFixture director;
  director.Call(&DirectorEngine::BeginShutdown);
  director.Call(&DirectorEngine::Resume);
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), HasReason("QUEUE_DRAINING"));
  director.Restart();
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), IsOk());
}

TEST(EngineAdmissionTest, WaiterWhoseDeadlineHasPassedIsNotStarted) {
  EngineFixture director({.queue = {.max_size = 1, .policy = QueuePolicy::kBlock}});
  core::Submission delayed = EngineFixture::Prompt();
  delayed.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  const core::QueueId first = director.Add(delayed);
  core::Submission urgent = EngineFixture::Prompt();
  urgent.spec.deadline_at = director.now().wall + absl::Seconds(10);
  const auto waiter = std::get<WaiterId>(director.Submit(urgent));
  director.Connect("a");
  director.Advance(absl::Seconds(20));
  director.Cancel(first);
  const core::QueueId second = std::get<SubmitResult>(*director.DecisionFor(waiter)).queue_id;
  EXPECT_EQ(director.Task(second).reason, core::FailureReason::kExpired);
}

}  // namespace
}  // namespace callboard::director
