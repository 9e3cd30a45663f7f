#include "libs/director/waiter_queue.h"

#include <gtest/gtest.h>

#include <memory>

namespace callboard::director {
namespace {

AdmissionRequest MakeRequest(size_t prompt_bytes = 0,
                             core::TaskSource source = core::TaskSource::kApi) {
  AdmissionRequest request = {.identity = "me",
                              .arrived = absl::UnixEpoch(),
                              .submission = std::make_shared<core::Submission>()};
  request.submission->spec.bytes = std::make_shared<const std::string>(prompt_bytes, 'x');
  request.submission->spec.terms.source = source;
  return request;
}
AdmissionRequest MakeTicketRequest() { return {.identity = "me", .arrived = absl::UnixEpoch()}; }

TEST(WaiterQueueTest, ServesInOrderOfArrival) {
  WaiterQueue queue(10, 1 << 20);
  const WaiterId first = *queue.Add(MakeRequest());
  const WaiterId second = *queue.Add(MakeTicketRequest());
  EXPECT_EQ(queue.Next(true), first);
  queue.Remove(first);
  EXPECT_EQ(queue.Next(true), second);
}

TEST(WaiterQueueTest, SchedulerIsSkippedWhileItIsNotAllowed) {
  WaiterQueue queue(10, 1 << 20);
  const WaiterId scheduler = *queue.Add(MakeRequest(0, core::TaskSource::kScheduler));
  EXPECT_EQ(queue.Next(/*allow_scheduler=*/false), std::nullopt);
  const WaiterId other = *queue.Add(MakeRequest());
  EXPECT_EQ(queue.Next(/*allow_scheduler=*/false), other);
  EXPECT_EQ(queue.Next(/*allow_scheduler=*/true), scheduler);
}

TEST(WaiterQueueTest, IsBoundedInNumber) {
  WaiterQueue queue(1, 1 << 20);
  const WaiterId first = *queue.Add(MakeRequest());
  EXPECT_EQ(queue.Add(MakeRequest()), std::nullopt);
  queue.Remove(first);
  EXPECT_NE(queue.Add(MakeRequest()), std::nullopt);
}

TEST(WaiterQueueTest, IsBoundedInBytes) {
  WaiterQueue queue(10, 100'000);
  const WaiterId large = *queue.Add(MakeRequest(60'000));
  EXPECT_EQ(queue.Add(MakeRequest(60'000)), std::nullopt);
  EXPECT_FALSE(queue.has_too_many());
  queue.Remove(large);
  EXPECT_EQ(queue.bytes(), 0u);
  EXPECT_NE(queue.Add(MakeRequest(60'000)), std::nullopt);
}

TEST(WaiterQueueTest, EmptyQueueAcceptsARequestOfAnySize) {
  WaiterQueue queue(10, 100);
  const WaiterId large = *queue.Add(MakeRequest(60'000));
  EXPECT_EQ(queue.Add(MakeRequest(1)), std::nullopt);
  queue.Remove(large);
  EXPECT_NE(queue.Add(MakeRequest(60'000)), std::nullopt);
}

TEST(WaiterQueueTest, CountsTheMemoryOfWaiters) {
  WaiterQueue queue(10, 5'000);
  EXPECT_NE(queue.Add(MakeRequest(1)), std::nullopt);
  EXPECT_NE(queue.Add(MakeRequest(1)), std::nullopt) << queue.bytes();
  EXPECT_NE(queue.Add(MakeTicketRequest()), std::nullopt) << queue.bytes();
}

TEST(WaiterQueueTest, CountsTheSpecAndTheLabels) {
  WaiterQueue queue(10, 1 << 20);
  queue.Add(MakeRequest());
  const uint64_t small = queue.bytes();
  const std::string text(1000, 'x');
  AdmissionRequest large = MakeRequest(12'000);
  core::PlacementTerms& terms = large.submission->spec.terms;
  terms.labels = terms.required_labels = {{text, text}};
  queue.Add(std::move(large));
  EXPECT_GE(queue.bytes(), 2 * small + 16'000);
}

TEST(WaiterQueueTest, FindsWaitersByRequestId) {
  WaiterQueue queue(10, 1 << 20);
  const auto named = [](const std::string& identity, const std::string& id) {
    AdmissionRequest request = MakeRequest();
    request.identity = identity;
    request.submission->spec.request_id = id;
    return request;
  };
  const WaiterId first = *queue.Add(named("me", "r"));
  queue.Add(named("you", "r"));
  queue.Add(named("me", "other"));
  queue.Add(MakeRequest());
  const WaiterId second = *queue.Add(named("me", "r"));
  EXPECT_EQ(queue.FindByRequestId("me", "r"), (std::vector<WaiterId>{first, second}));
  queue.Remove(first);
  EXPECT_EQ(queue.FindByRequestId("me", "r"), (std::vector<WaiterId>{second}));
  EXPECT_TRUE(queue.FindByRequestId("me", "").empty());
}

TEST(WaiterQueueTest, CountsTicketRequests) {
  WaiterQueue queue(10, 1 << 20);
  const WaiterId id = *queue.Add(MakeTicketRequest());
  queue.Add(MakeRequest());
  EXPECT_EQ(queue.ticket_request_count(), 1u);
  EXPECT_EQ(queue.TicketRequestCount("me"), 1u);
  queue.Remove(id);
  EXPECT_EQ(queue.TicketRequestCount("me"), 0u);
}

TEST(TicketsTest, IsValidForItsHolderUntilItExpires) {
  Tickets tickets;
  tickets.Add("t", {"me", absl::Seconds(10)});
  EXPECT_TRUE(tickets.IsValid("t", "me", absl::Seconds(9)));
  EXPECT_FALSE(tickets.IsValid("t", "you", absl::Seconds(9)));
  EXPECT_FALSE(tickets.IsValid("t", "me", absl::Seconds(10)));
  EXPECT_EQ(tickets.NextExpiry(), absl::Seconds(10));
  tickets.Expire(absl::Seconds(10));
  EXPECT_EQ(tickets.size(), 0u);
}

}  // namespace
}  // namespace callboard::director
