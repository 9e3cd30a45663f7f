// The door of a full queue: policies, waiters, the scheduler's share, drain and pause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::QueuePolicy;
using core::TaskState;
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

core::Submission Asking(QueuePolicy policy) {
  core::Submission submission = EngineFixture::Prompt();
  submission.policy = policy;
  return submission;
}

core::Submission Scheduled(std::optional<QueuePolicy> policy = {}) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.source = core::TaskSource::kScheduler;
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
  return (arg != nullptr && std::holds_alternative<Submitted>(*arg)) == accepted;
}

bool HasRetryInfo(const absl::Status& status) {
  return base::DetailsOf(status).retry_after.value_or(absl::ZeroDuration()) > absl::ZeroDuration();
}

// ---- Policies ----

TEST(EngineAdmissionTest, DefaultBoundIsFiftyAndTheDefaultPolicyRejects) {
  EngineFixture director;
  Fill(director, 50);
  const absl::Status refused = director.Try(EngineFixture::Prompt());
  EXPECT_THAT(refused, AllOf(StatusIs(kExhausted, "queue is at capacity (50 tasks)"),
                             HasReason("QUEUE_FULL")));
  EXPECT_THAT(base::DetailsOf(refused).metadata,
              ElementsAre(Pair("depth", "50"), Pair("max_size", "50"), Pair("policy", "reject")));
  EXPECT_TRUE(HasRetryInfo(refused));
}

TEST(EngineAdmissionTest, BoundCountsBackingOffAndDelayedTasksButNotRunningOnes) {
  EngineFixture director(Bounded(3));
  director.Connect("a");
  director.Answer(director.Add(), absl::UnavailableError(""));
  core::Submission later = EngineFixture::Prompt();
  later.spec.earliest_start_at = director.now().wall + absl::Hours(1);
  director.Add(later);
  director.Accept(director.Add());
  director.Add();
  EXPECT_THAT(director.Line(), SizeIs(3));
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), HasReason("QUEUE_FULL"));
}

TEST(EngineAdmissionTest, NoBoundMeansNoRefusal) {
  EngineFixture director(Bounded(0));
  Fill(director, 200);
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), IsOk());
}

TEST(EngineAdmissionTest, DropLatestRefusesTheNewcomer) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropLatest));
  const core::QueueId task = director.Add();
  const absl::Status refused = director.Try(EngineFixture::Prompt());
  EXPECT_THAT(refused, AllOf(StatusIs(kExhausted), HasReason("QUEUE_FULL")));
  EXPECT_THAT(base::DetailsOf(refused).metadata, Contains(Pair("policy", "drop-latest")));
  EXPECT_TRUE(HasRetryInfo(refused));
  EXPECT_THAT(director.Line(), ElementsAre(task));
}

TEST(EngineAdmissionTest, DropOldestEvictsExactlyTheFirstNeverDispatched) {
  EngineFixture director(Bounded(3, QueuePolicy::kDropOldest));
  director.Connect("a");
  const core::QueueId dispatched = director.Add();
  director.Answer(dispatched, absl::UnauthenticatedError(""));
  const core::QueueId oldest = director.Add();
  const core::QueueId second = director.Add();
  const core::QueueId newcomer = director.Add();
  EXPECT_EQ(director.Reason(oldest), FailureReason::kEvicted);
  EXPECT_THAT(director.Events(oldest).back().why, testing::EndsWith(ToString(newcomer)));
  EXPECT_THAT(director.Line(), ElementsAre(dispatched, second, newcomer));
}

TEST(EngineAdmissionTest, DropOldestWithNothingToEvictRejects) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropOldest));
  director.Connect("a");
  director.Answer(director.Add(), absl::UnauthenticatedError(""));
  EXPECT_THAT(director.Try(EngineFixture::Prompt()),
              AllOf(StatusIs(kExhausted), HasReason("QUEUE_FULL")));
}

TEST(EngineAdmissionTest, SubmitMayAskForAnotherPolicy) {
  EngineFixture director(Bounded(1, QueuePolicy::kBlock));
  director.Add();
  EXPECT_THAT(director.Try(Asking(QueuePolicy::kReject)), HasReason("QUEUE_FULL"));
  EXPECT_TRUE(std::holds_alternative<WaiterId>(director.Submit(EngineFixture::Prompt())));
}

TEST(EngineAdmissionTest, SubmitMayAskForDropOldestOnlyWhereItIsAllowed) {
  EngineFixture strict(Bounded(1));
  const core::QueueId task = strict.Add();
  EXPECT_FALSE(strict.Try(Asking(QueuePolicy::kDropOldest)).ok());
  EXPECT_THAT(strict.Line(), ElementsAre(task));

  EngineFixture lenient({.queue = {.max_size = 1, .allow_evict = true}});
  const core::QueueId victim = lenient.Add();
  EXPECT_THAT(lenient.Try(Asking(QueuePolicy::kDropOldest)), IsOk());
  EXPECT_EQ(lenient.Reason(victim), FailureReason::kEvicted);
}

// ---- Waiters ----

TEST(EngineAdmissionTest, WaitersAreAdmittedInTheOrderOfTheirArrival) {
  EngineFixture director(Bounded(1));
  director.Add();
  const WaiterId first = director.AddWaiter(EngineFixture::Prompt("first"));
  const WaiterId second = director.AddWaiter(EngineFixture::Prompt("second"));
  director.Connect("a");
  ASSERT_THAT(director.AnswerTo(first), IsAccepted(true));
  EXPECT_THAT(director.AnswerTo(second), IsAccepted(false));
  const auto& admitted = std::get<Submitted>(*director.AnswerTo(first));
  EXPECT_EQ(admitted.state, TaskState::kPending);
  EXPECT_EQ(admitted.position, 1u);
  director.Cancel(admitted.queue_id);
  EXPECT_THAT(director.AnswerTo(second), IsAccepted(true));
}

TEST(EngineAdmissionTest, WaiterBoundsAreInNumberAndInBytes) {
  EngineFixture few({.queue = {.max_size = 1, .max_waiters = 1}});
  few.Add();
  few.AddWaiter();
  const absl::Status refused = few.Try(Asking(QueuePolicy::kBlock));
  EXPECT_THAT(refused, AllOf(StatusIs(kExhausted), HasReason("TOO_MANY_WAITERS")));
  EXPECT_TRUE(HasRetryInfo(refused));
  EXPECT_EQ(refused.message(),
            "too many callers wait for a place (1 of 1, setting queue.max_waiters)");
  EXPECT_THAT(EngineFixture::ErrorOf(few.Reserve()), HasReason("TOO_MANY_WAITERS"));

  EngineFixture small({.queue = {.max_size = 1, .max_waiting_bytes = 1 << 20}});
  small.Add();
  small.AddWaiter(EngineFixture::Prompt(std::string(900'000, 'x')));
  core::Submission large = Asking(QueuePolicy::kBlock);
  large.spec.prompt = std::string(200'000, 'x');
  const absl::Status too_large = small.Try(large);
  EXPECT_THAT(too_large, HasReason("TOO_MANY_WAITERS"));
  EXPECT_EQ(base::DetailsOf(too_large).metadata.at("bound"), "queue.max_waiting_bytes");
  EXPECT_THAT(std::string(too_large.message()), testing::HasSubstr("of 1048576 bytes"));
}

TEST(EngineAdmissionTest, WaiterThatLeftMakesRoomForAnother) {
  EngineFixture director({.queue = {.max_size = 1, .max_waiters = 1}});
  director.Add();
  director.Leave(director.AddWaiter());
  const WaiterId next = director.AddWaiter();
  director.Connect("a");
  EXPECT_THAT(director.AnswerTo(next), IsAccepted(true));
}

TEST(EngineAdmissionTest, WaiterThatLeavesAfterTheDecisionStaysAcceptedAndItsIdFindsIt) {
  EngineFixture director(Bounded(1));
  core::Submission submission = EngineFixture::Prompt();
  const core::QueueId first = director.Add();
  submission.spec.request_id = "r";
  const WaiterId waiter = director.AddWaiter(submission);
  director.Cancel(first);
  director.Leave(waiter);
  const auto again = std::get<Submitted>(director.Submit(submission));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_THAT(director.Line(), ElementsAre(again.queue_id));
}

TEST(EngineAdmissionTest, PausedQueueLetsWaitersWaitOn) {
  EngineFixture director(Bounded(1));
  director.Tell(&DirectorEngine::Pause);
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.Connect("a");
  EXPECT_EQ(director.AnswerTo(waiter), nullptr);
  director.Cancel(task);
  EXPECT_THAT(director.AnswerTo(waiter), IsAccepted(true)) << "a place is a place";
}

TEST(EngineAdmissionTest, RequeuesPassTheBoundAndNobodyIsAdmittedAboveIt) {
  EngineFixture director(Bounded(1));
  director.Connect("a");
  const core::QueueId task = director.Add();
  director.Add();
  const WaiterId waiter = director.AddWaiter();
  director.RefuseAsBusy(task);
  EXPECT_THAT(director.Line(), SizeIs(2));
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), HasReason("QUEUE_FULL"));
  director.Cancel(task);
  EXPECT_EQ(director.AnswerTo(waiter), nullptr) << "that only brought it back to the bound";
  director.Cancel(director.Line().front());
  EXPECT_THAT(director.AnswerTo(waiter), IsAccepted(true));
}

TEST(EngineAdmissionTest, DropOldestAboveTheBoundStillEvictsOnlyOne) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropOldest));
  director.Connect("a");
  const core::QueueId bounced = director.Add();
  const core::QueueId fresh = director.Add();
  director.RefuseAsBusy(bounced);
  const core::QueueId newcomer = director.Add();
  EXPECT_EQ(director.Reason(fresh), FailureReason::kEvicted);
  EXPECT_THAT(director.Line(), ElementsAre(bounced, newcomer));
}

// ---- The scheduler's share ----

TEST(EngineAdmissionTest, SchedulerMayHoldFourFifthsOfTheQueue) {
  EngineFixture director;
  for (int i = 0; i < 40; ++i) director.Add(Scheduled());
  const absl::Status refused = director.Try(Scheduled());
  EXPECT_THAT(refused, AllOf(StatusIs(kExhausted, "scheduler share is used up (40 of 50 tasks)"),
                             HasReason("QUEUE_FULL")));
  EXPECT_TRUE(HasRetryInfo(refused));
  const auto metadata = base::DetailsOf(refused).metadata;
  EXPECT_EQ(metadata.at("share"), "40");
  EXPECT_EQ(metadata.at("share_used"), "40");
  EXPECT_EQ(metadata.at("max_size"), "50");
  EXPECT_EQ(metadata.at("depth"), "40");
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), IsOk()) << "others have the rest";
}

TEST(EngineAdmissionTest, SchedulerHasAtLeastOnePlaceAndNoLimitWithoutABound) {
  EngineFixture tiny(Bounded(1));
  EXPECT_THAT(tiny.Try(Scheduled()), IsOk());
  EngineFixture unbounded(Bounded(0));
  for (int i = 0; i < 100; ++i) unbounded.Add(Scheduled());
}

TEST(EngineAdmissionTest, ShareIsExactWhereItIsAWholeNumberOfPlaces) {
  EngineFixture director({.queue = {.max_size = 100, .scheduler_share = 0.29}});
  for (int i = 0; i < 29; ++i) director.Add(Scheduled());
  EXPECT_THAT(director.Try(Scheduled()), HasReason("QUEUE_FULL"));
}

TEST(EngineAdmissionTest, SchedulerOverItsShareWaitsAndIsPassedBy) {
  EngineFixture director(Bounded(2));
  const core::QueueId scheduled = director.Add(Scheduled());
  const WaiterId waiting = director.AddWaiter(Scheduled());
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), IsOk()) << "there is a place for others";
  const WaiterId other = director.AddWaiter();
  director.Cancel(director.Line().back());
  EXPECT_THAT(director.AnswerTo(other), IsAccepted(true));
  EXPECT_EQ(director.AnswerTo(waiting), nullptr);
  director.Cancel(scheduled);
  EXPECT_THAT(director.AnswerTo(waiting), IsAccepted(true));
}

TEST(EngineAdmissionTest, SchedulerOverItsShareEvictsItsOwnOldest) {
  EngineFixture director(Bounded(3, QueuePolicy::kDropOldest));
  const core::QueueId other = director.Add();
  const core::QueueId first = director.Add(Scheduled());
  const core::QueueId second = director.Add(Scheduled());
  const core::QueueId third = director.Add(Scheduled());
  EXPECT_EQ(director.Reason(first), FailureReason::kEvicted);
  EXPECT_THAT(director.Line(), ElementsAre(other, second, third));
}

TEST(EngineAdmissionTest, SchedulerWithoutAnythingToEvictIsRejected) {
  EngineFixture director(Bounded(1, QueuePolicy::kDropOldest));
  director.Connect("a");
  director.Answer(director.Add(Scheduled()), absl::UnauthenticatedError(""));
  EXPECT_THAT(director.Try(Scheduled()), HasReason("QUEUE_FULL"));
}

// ---- Drain ----

TEST(EngineAdmissionTest, DrainingQueueRefusesSubmitsWaitersAndTickets) {
  EngineFixture director(Bounded(4));
  const std::string ticket = director.Ticket();
  Fill(director, 3);
  const WaiterId waiter = director.AddWaiter();
  const WaiterId reserving = std::get<WaiterId>(director.Reserve("you"));
  director.Tell(&DirectorEngine::Drain);
  core::Submission with_ticket = EngineFixture::Prompt();
  with_ticket.ticket = ticket;
  for (const absl::Status& refused :
       {EngineFixture::ErrorOf(*director.AnswerTo(waiter)),
        EngineFixture::ErrorOf(*director.AnswerTo(reserving)),
        director.Try(EngineFixture::Prompt()), director.Try(with_ticket),
        EngineFixture::ErrorOf(director.Reserve())}) {
    EXPECT_THAT(refused,
                AllOf(StatusIs(absl::StatusCode::kUnavailable), HasReason("QUEUE_DRAINING")));
    EXPECT_TRUE(HasRetryInfo(refused));
  }
}

TEST(EngineAdmissionTest, DrainingQueueGoesOnDispatching) {
  EngineFixture director;
  const core::QueueId task = director.Add();
  director.Tell(&DirectorEngine::Drain);
  director.Connect("a");
  EXPECT_EQ(director.State(task), TaskState::kDispatching);
}

TEST(EngineAdmissionTest, ResumeEndsBothPauseAndDrain) {
  EngineFixture director;
  director.Connect("a");
  director.Tell(&DirectorEngine::Pause);
  director.Tell(&DirectorEngine::Drain);
  director.Tell(&DirectorEngine::Resume);
  EXPECT_EQ(director.State(director.Add()), TaskState::kDispatching);
}

TEST(EngineAdmissionTest, DrainOfAShutdownEndsWithTheProcessOnly) {
  EngineFixture director;
  director.Tell(&DirectorEngine::BeginShutdown);
  director.Tell(&DirectorEngine::Resume);
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), HasReason("QUEUE_DRAINING"));
  director.Restart();
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), IsOk());
}

// ---- Not built yet ----

TEST(EngineAdmissionTest, OptInFieldsAreRefused) {
  EngineFixture director;
  std::vector<core::Submission> submissions(6, EngineFixture::Prompt());
  submissions[0].spec.priority = core::Priority::kHigh;
  submissions[1].spec.fairness_key = "team";
  submissions[2].spec.cost_units = 1;
  submissions[3].spec.constraints = {core::Constraint::kCpuHeavy};
  submissions[4].spec.run_when = core::RunWhen::kQuiet;
  submissions[5].spec.time_sensitive = true;
  for (const core::Submission& submission : submissions) {
    EXPECT_THAT(director.Try(submission), StatusIs(absl::StatusCode::kUnimplemented));
  }
}

TEST(EngineAdmissionTest, NeutralValuesOfOptInFieldsAreTaken) {
  EngineFixture director;
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.priority = core::Priority::kNormal;
  submission.spec.run_when = core::RunWhen::kAnytime;
  submission.spec.cost_units = 0;
  EXPECT_THAT(director.Try(submission), IsOk());
  submission.spec.priority = core::Priority::kLow;
  EXPECT_THAT(director.Try(submission), StatusIs(absl::StatusCode::kUnimplemented));
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
  const core::QueueId second = std::get<Submitted>(*director.AnswerTo(waiter)).queue_id;
  EXPECT_EQ(director.Task(second).reason, core::FailureReason::kExpired);
}

}  // namespace
}  // namespace callboard::director
