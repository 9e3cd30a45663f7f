// Places that are held before there is a task for them.
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

core::Submission With(const std::string& ticket) {
  core::Submission submission = EngineFixture::Prompt();
  submission.ticket = ticket;
  return submission;
}

EngineOptions Bounded(uint32_t max_size) { return {.queue = {.max_size = max_size}}; }

template <class Wanted>
bool Got(const Decision* decision) {
  return decision != nullptr && std::holds_alternative<Wanted>(*decision);
}

TEST(EngineTicketTest, TicketHoldsAPlaceThatItsSubmitTakes) {
  EngineFixture director(Bounded(1));
  const std::string ticket = director.Ticket();
  EXPECT_THAT(director.Try(EngineFixture::Prompt()), HasReason("QUEUE_FULL"));
  EXPECT_THAT(director.Try(With(ticket)), IsOk());
  EXPECT_THAT(director.Line(), SizeIs(1));
  EXPECT_EQ(director.engine().Status(director.now()).tickets, 0u);
}

TEST(EngineTicketTest, TicketServesOnceAndOnlyItsHolder) {
  EngineFixture director;
  const std::string ticket = director.Ticket();
  EXPECT_THAT(director.Try(With(ticket), "you"),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("TICKET_EXPIRED")));
  EXPECT_THAT(director.Try(With(ticket)), IsOk());
  EXPECT_THAT(director.Try(With(ticket)), HasReason("TICKET_EXPIRED"));
}

TEST(EngineTicketTest, ExpiredTicketGivesItsPlaceToTheNextWaiter) {
  EngineFixture director(Bounded(1));
  const std::string ticket = director.Ticket();
  const WaiterId waiter = director.AddWaiter();
  director.Advance(absl::Seconds(30) - absl::Milliseconds(1));
  EXPECT_EQ(director.AnswerTo(waiter), nullptr);
  director.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Got<Submitted>(director.AnswerTo(waiter)));
  EXPECT_THAT(director.Try(With(ticket)),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("TICKET_EXPIRED")));
}

TEST(EngineTicketTest, TicketIsLostByARestart) {
  EngineFixture director;
  const std::string ticket = director.Ticket();
  director.Restart();
  EXPECT_THAT(director.Try(With(ticket)), HasReason("TICKET_EXPIRED"));
}

TEST(EngineTicketTest, InvalidTicketIsNotAReasonToWait) {
  EngineFixture director(Bounded(1));
  director.Add();
  core::Submission submission = With("ticket-none");
  submission.policy = QueuePolicy::kBlock;
  EXPECT_THAT(director.Try(submission), HasReason("TICKET_EXPIRED"));
}

TEST(EngineTicketTest, TicketIsKeptWhenAnEarlierCheckRefuses) {
  EngineFixture director(Bounded(3));
  core::Submission known = EngineFixture::Prompt("one");
  known.spec.request_id = "r";
  known.spec.overlap = {.key = "k", .policy = core::OverlapPolicy::kSkip};
  known.spec.source = core::TaskSource::kScheduler;
  director.Add(known);
  core::Submission second = EngineFixture::Prompt();
  second.spec.source = core::TaskSource::kScheduler;
  director.Add(second);
  const std::string ticket = director.Ticket();

  core::Submission reused = With(ticket);
  reused.spec.request_id = "r";
  EXPECT_THAT(director.Try(reused), HasReason("REQUEST_ID_REUSED"));
  core::Submission overlapping = With(ticket);
  overlapping.spec.overlap = known.spec.overlap;
  EXPECT_THAT(director.Try(overlapping), HasReason("OVERLAP"));
  core::Submission scheduled = With(ticket);
  scheduled.spec.source = core::TaskSource::kScheduler;
  EXPECT_THAT(director.Try(scheduled), HasReason("QUEUE_FULL")) << "the share";
  EXPECT_THAT(director.Try(With(ticket)), IsOk());
}

TEST(EngineTicketTest, DeduplicatedAnswerReleasesTheTicket) {
  EngineFixture director(Bounded(2));
  core::Submission known = EngineFixture::Prompt();
  known.spec.request_id = "r";
  director.Add(known);
  known.ticket = director.Ticket();
  const WaiterId waiter = director.AddWaiter();
  const auto again = std::get<Submitted>(director.Submit(known));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_TRUE(Got<Submitted>(director.AnswerTo(waiter)));
}

TEST(EngineTicketTest, TicketTakesThePlaceOfThePolicyAndEvictsNothing) {
  EngineFixture director({.queue = {.max_size = 2, .policy = QueuePolicy::kDropOldest}});
  director.Add();
  const std::string ticket = director.Ticket();
  EXPECT_THAT(director.Try(With(ticket)), IsOk());
  EXPECT_THAT(director.Line(), SizeIs(2));
}

TEST(EngineTicketTest, ReserveAndBlockShareOneLine) {
  EngineFixture director(Bounded(1));
  const core::QueueId task = director.Add();
  const WaiterId first = director.AddWaiter();
  const WaiterId second = std::get<WaiterId>(director.Reserve());
  const WaiterId third = director.AddWaiter();
  director.Cancel(task);
  ASSERT_TRUE(Got<Submitted>(director.AnswerTo(first)));
  EXPECT_EQ(director.AnswerTo(second), nullptr);
  director.Cancel(director.Line().front());
  ASSERT_TRUE(Got<TicketGranted>(director.AnswerTo(second)));
  EXPECT_EQ(director.AnswerTo(third), nullptr) << "the ticket has the place";
  director.Advance(absl::Seconds(30));
  EXPECT_TRUE(Got<Submitted>(director.AnswerTo(third)));
}

TEST(EngineTicketTest, LifetimeOfAWaitedForTicketBeginsWhenItIsGranted) {
  EngineFixture director(Bounded(1));
  const core::QueueId task = director.Add();
  const WaiterId waiter = std::get<WaiterId>(director.Reserve("me", absl::Seconds(10)));
  director.Advance(absl::Minutes(1));
  director.Cancel(task);
  ASSERT_TRUE(Got<TicketGranted>(director.AnswerTo(waiter)));
  const auto granted = std::get<TicketGranted>(*director.AnswerTo(waiter));
  EXPECT_EQ(granted.expires_at, director.now().wall + absl::Seconds(10));
  director.Advance(absl::Seconds(9));
  EXPECT_THAT(director.Try(With(granted.ticket)), IsOk());
}

TEST(EngineTicketTest, OneCallerMayHoldFourTickets) {
  EngineFixture director;
  for (int i = 0; i < 4; ++i) director.Ticket();
  const absl::Status refused = EngineFixture::ErrorOf(director.Reserve());
  EXPECT_THAT(refused,
              AllOf(StatusIs(absl::StatusCode::kResourceExhausted), HasReason("TOO_MANY_TICKETS")));
  EXPECT_TRUE(base::DetailsOf(refused).retry_after.has_value());
  director.Ticket("you");
}

TEST(EngineTicketTest, HalfOfTheQueueMayBeTicketsAndAlwaysOne) {
  EngineFixture director(Bounded(5));
  director.Ticket("a");
  director.Ticket("b");
  EXPECT_THAT(EngineFixture::ErrorOf(director.Reserve("c")), HasReason("TOO_MANY_TICKETS"));
  EngineFixture tiny(Bounded(1));
  tiny.Ticket();
}

TEST(EngineTicketTest, QueueWithoutABoundHasAThousandTickets) {
  EngineFixture director(Bounded(0));
  for (int i = 0; i < 1000; ++i) director.Ticket("caller-" + std::to_string(i / 4));
  EXPECT_THAT(EngineFixture::ErrorOf(director.Reserve("late")), HasReason("TOO_MANY_TICKETS"));
}

TEST(EngineTicketTest, WaitingForATicketCountsAsHoldingOne) {
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
  submission.ticket = director.Ticket();
  submission.validate_only = true;
  EXPECT_TRUE(std::get<Submitted>(director.Submit(submission)).deduplicated);
  EXPECT_EQ(director.engine().Status(director.now()).tickets, 1u);
}

}  // namespace
}  // namespace callboard::director
