// Tickets: places that are reserved before there is a task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::QueuePolicy;
using test::EngineFixture;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::SizeIs;

core::Submission WithTicket(const std::string& ticket) {
  core::Submission submission = EngineFixture::Prompt();
  submission.ticket = ticket;
  return submission;
}

EngineOptions Bounded(uint32_t max_size) { return {.queue = {.max_size = max_size}}; }

template <class Expected>
bool Is(const Decision* decision) {
  return decision != nullptr && std::holds_alternative<Expected>(*decision);
}

TEST(EngineTicketTest, TicketHoldsAPlaceForItsSubmit) {
  EngineFixture director(Bounded(1));
  const std::string ticket = director.GrantTicket();
  EXPECT_THAT(director.TrySubmit(EngineFixture::Prompt()), HasReason("QUEUE_FULL"));
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)), IsOk());
  EXPECT_THAT(director.PendingTasks(), SizeIs(1));
  EXPECT_EQ(director.engine().views().Status(director.now()).tickets, 0u);
}

TEST(EngineTicketTest, TicketIsValidOnceAndForItsHolderOnly) {
  EngineFixture director;
  const std::string ticket = director.GrantTicket();
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket), "you"),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("TICKET_EXPIRED")));
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)), IsOk());
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)), HasReason("TICKET_EXPIRED"));
}

TEST(EngineTicketTest, ExpiredTicketFreesItsPlaceForTheNextWaiter) {
  EngineFixture director(Bounded(1));
  const std::string ticket = director.GrantTicket();
  const WaiterId waiter = director.AddWaiter();
  director.Advance(absl::Seconds(30) - absl::Milliseconds(1));
  EXPECT_EQ(director.DecisionFor(waiter), nullptr);
  director.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Is<SubmitResult>(director.DecisionFor(waiter)));
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("TICKET_EXPIRED")));
}

TEST(EngineTicketTest, TicketIsLostByARestart) {
  EngineFixture director;
  const std::string ticket = director.GrantTicket();
  director.Restart();
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)), HasReason("TICKET_EXPIRED"));
}

TEST(EngineTicketTest, SubmitWithAnInvalidTicketDoesNotWait) {
  EngineFixture director(Bounded(1));
  director.Add();
  core::Submission submission = WithTicket("ticket-none");
  submission.policy = QueuePolicy::kBlock;
  EXPECT_THAT(director.TrySubmit(submission), HasReason("TICKET_EXPIRED"));
}

TEST(EngineTicketTest, TicketIsKeptWhenAnEarlierCheckFails) {
  EngineFixture director(Bounded(3));
  core::Submission known = EngineFixture::Prompt("one");
  known.spec.request_id = "r";
  known.spec.terms.overlap = {.key = "k", .policy = core::OverlapPolicy::kSkip};
  known.spec.terms.source = core::TaskSource::kScheduler;
  director.Add(known);
  core::Submission second = EngineFixture::Prompt();
  second.spec.terms.source = core::TaskSource::kScheduler;
  director.Add(second);
  const std::string ticket = director.GrantTicket();

  core::Submission reused = WithTicket(ticket);
  reused.spec.request_id = "r";
  EXPECT_THAT(director.TrySubmit(reused), HasReason("REQUEST_ID_REUSED"));
  core::Submission overlapping = WithTicket(ticket);
  overlapping.spec.terms.overlap = known.spec.terms.overlap;
  EXPECT_THAT(director.TrySubmit(overlapping), HasReason("OVERLAP"));
  core::Submission scheduled = WithTicket(ticket);
  scheduled.spec.terms.source = core::TaskSource::kScheduler;
  EXPECT_THAT(director.TrySubmit(scheduled), HasReason("QUEUE_FULL"))
      << "the scheduler's share is used up";
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)), IsOk());
}

TEST(EngineTicketTest, DuplicateSubmitReleasesTheTicket) {
  EngineFixture director(Bounded(2));
  core::Submission known = EngineFixture::Prompt();
  known.spec.request_id = "r";
  director.Add(known);
  known.ticket = director.GrantTicket();
  const WaiterId waiter = director.AddWaiter();
  const auto again = std::get<SubmitResult>(director.Submit(known));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_TRUE(Is<SubmitResult>(director.DecisionFor(waiter)));
}

TEST(EngineTicketTest, SubmitWithATicketEvictsNothing) {
  EngineFixture director({.queue = {.max_size = 2, .policy = QueuePolicy::kDropOldest}});
  director.Add();
  const std::string ticket = director.GrantTicket();
  EXPECT_THAT(director.TrySubmit(WithTicket(ticket)), IsOk());
  EXPECT_THAT(director.PendingTasks(), SizeIs(2));
}

TEST(EngineTicketTest, ReserveAndBlockShareOneLine) {
  EngineFixture director(Bounded(1));
  const core::QueueId task = director.Add();
  const WaiterId first = director.AddWaiter();
  const WaiterId second = std::get<WaiterId>(director.Reserve());
  const WaiterId third = director.AddWaiter();
  director.Cancel(task);
  ASSERT_TRUE(Is<SubmitResult>(director.DecisionFor(first)));
  EXPECT_EQ(director.DecisionFor(second), nullptr);
  director.Cancel(director.PendingTasks().front());
  ASSERT_TRUE(Is<GrantedTicket>(director.DecisionFor(second)));
  EXPECT_EQ(director.DecisionFor(third), nullptr) << "the ticket has the place";
  director.Advance(absl::Seconds(30));
  EXPECT_TRUE(Is<SubmitResult>(director.DecisionFor(third)));
}

TEST(EngineTicketTest, TicketLifetimeStartsWhenItIsGranted) {
  EngineFixture director(Bounded(1));
  const core::QueueId task = director.Add();
  const WaiterId waiter = std::get<WaiterId>(director.Reserve("me", absl::Seconds(10)));
  director.Advance(absl::Minutes(1));
  director.Cancel(task);
  ASSERT_TRUE(Is<GrantedTicket>(director.DecisionFor(waiter)));
  const auto granted = std::get<GrantedTicket>(*director.DecisionFor(waiter));
  EXPECT_EQ(granted.expires_at, director.now().wall + absl::Seconds(10));
  director.Advance(absl::Seconds(9));
  EXPECT_THAT(director.TrySubmit(WithTicket(granted.ticket)), IsOk());
}

TEST(EngineTicketTest, OneCallerMayHoldFourTickets) {
  EngineFixture director;
  for (int i = 0; i < 4; ++i) director.GrantTicket();
  const absl::Status error = EngineFixture::ErrorOf(director.Reserve());
  EXPECT_THAT(error,
              AllOf(StatusIs(absl::StatusCode::kResourceExhausted), HasReason("TOO_MANY_TICKETS")));
  EXPECT_TRUE(base::GetErrorDetails(error).retry_after.has_value());
  director.GrantTicket("you");
}

TEST(EngineTicketTest, TicketsMayUseHalfOfTheQueueAndAtLeastOnePlace) {
  EngineFixture director(Bounded(5));
  director.GrantTicket("a");
  director.GrantTicket("b");
  EXPECT_THAT(EngineFixture::ErrorOf(director.Reserve("c")), HasReason("TOO_MANY_TICKETS"));
  EngineFixture tiny(Bounded(1));
  tiny.GrantTicket();
}

TEST(EngineTicketTest, UnboundedQueueHasAThousandTickets) {
  EngineFixture director(Bounded(0));
  for (int i = 0; i < 1000; ++i) director.GrantTicket("caller-" + std::to_string(i / 4));
  EXPECT_THAT(EngineFixture::ErrorOf(director.Reserve("late")), HasReason("TOO_MANY_TICKETS"));
}

TEST(EngineTicketTest, WaitingForATicketCountsAsATicket) {
  EngineFixture director(Bounded(8));
  for (int i = 0; i < 8; ++i) director.Add();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::holds_alternative<WaiterId>(director.Reserve()));
  EXPECT_THAT(EngineFixture::ErrorOf(director.Reserve()), HasReason("TOO_MANY_TICKETS"));
}

TEST(EngineTicketTest, DryRunKeepsTheTicket) {
  EngineFixture director({.queue = {.max_size = 2}});
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.request_id = "r";
  director.Add(submission);
  submission.ticket = director.GrantTicket();
  submission.validate_only = true;
  EXPECT_TRUE(std::get<SubmitResult>(director.Submit(submission)).deduplicated);
  EXPECT_EQ(director.engine().views().Status(director.now()).tickets, 1u);
}

}  // namespace
}  // namespace callboard::director
