#include "libs/director/waiting_line.h"

#include <gtest/gtest.h>

#include <memory>

namespace callboard::director {
namespace {

Caller MakeCaller(size_t prompt_bytes = 0, core::TaskSource source = core::TaskSource::kApi) {
  Caller caller = {.identity = "me",
                   .arrived = absl::UnixEpoch(),
                   .submission = std::make_shared<core::Submission>()};
  caller.submission->spec.prompt.resize(prompt_bytes, 'x');
  caller.submission->spec.source = source;
  return caller;
}
Caller MakeTicketCaller() { return {.identity = "me", .arrived = absl::UnixEpoch()}; }

TEST(WaitingLineTest, ServesInOrderOfArrival) {
  WaitingLine line(10, 1 << 20);
  const WaiterId first = *line.Add(MakeCaller());
  const WaiterId second = *line.Add(MakeTicketCaller());
  EXPECT_EQ(line.Next(true), first);
  line.Remove(first);
  EXPECT_EQ(line.Next(true), second);
}

TEST(WaitingLineTest, SchedulerIsSkippedWhileItIsNotAllowed) {
  WaitingLine line(10, 1 << 20);
  const WaiterId scheduler = *line.Add(MakeCaller(0, core::TaskSource::kScheduler));
  EXPECT_EQ(line.Next(/*allow_scheduler=*/false), std::nullopt);
  const WaiterId other = *line.Add(MakeCaller());
  EXPECT_EQ(line.Next(/*allow_scheduler=*/false), other);
  EXPECT_EQ(line.Next(/*allow_scheduler=*/true), scheduler);
}

TEST(WaitingLineTest, IsBoundedInNumber) {
  WaitingLine line(1, 1 << 20);
  const WaiterId first = *line.Add(MakeCaller());
  EXPECT_EQ(line.Add(MakeCaller()), std::nullopt);
  line.Remove(first);
  EXPECT_NE(line.Add(MakeCaller()), std::nullopt);
}

TEST(WaitingLineTest, IsBoundedInBytes) {
  WaitingLine line(10, 100'000);
  const WaiterId large = *line.Add(MakeCaller(60'000));
  EXPECT_EQ(line.Add(MakeCaller(60'000)), std::nullopt);
  EXPECT_FALSE(line.has_too_many());
  line.Remove(large);
  EXPECT_EQ(line.bytes(), 0u);
  EXPECT_NE(line.Add(MakeCaller(60'000)), std::nullopt);
}

TEST(WaitingLineTest, EmptyLineAcceptsACallerOfAnySize) {
  WaitingLine line(10, 100);
  const WaiterId large = *line.Add(MakeCaller(60'000));
  EXPECT_EQ(line.Add(MakeCaller(1)), std::nullopt);
  line.Remove(large);
  EXPECT_NE(line.Add(MakeCaller(60'000)), std::nullopt);
}

TEST(WaitingLineTest, CountsTheMemoryOfWaiters) {
  WaitingLine line(10, 5'000);
  EXPECT_NE(line.Add(MakeCaller(1)), std::nullopt);
  EXPECT_NE(line.Add(MakeCaller(1)), std::nullopt) << line.bytes();
  EXPECT_NE(line.Add(MakeTicketCaller()), std::nullopt) << line.bytes();
}

TEST(WaitingLineTest, CountsEveryStringOfATask) {
  WaitingLine line(10, 1 << 20);
  line.Add(MakeCaller());
  const uint64_t small = line.bytes();
  Caller large = MakeCaller();
  core::TaskSpec& spec = large.submission->spec;
  const std::string text(1000, 'x');
  for (std::string* field : {&spec.payload, &spec.model, &spec.session_id, &spec.request_id,
                             &spec.source_job, &spec.job_type, &spec.lane, &spec.fairness_key}) {
    *field = text;
  }
  spec.project = {.name = text, .path = text};
  spec.env = spec.labels = spec.required_labels = {{text, text}};
  line.Add(std::move(large));
  EXPECT_GE(line.bytes(), 2 * small + 16'000);
}

TEST(WaitingLineTest, FindsWaitersByRequestId) {
  WaitingLine line(10, 1 << 20);
  const auto named = [](const std::string& identity, const std::string& id) {
    Caller caller = MakeCaller();
    caller.identity = identity;
    caller.submission->spec.request_id = id;
    return caller;
  };
  const WaiterId first = *line.Add(named("me", "r"));
  line.Add(named("you", "r"));
  line.Add(named("me", "other"));
  line.Add(MakeCaller());
  const WaiterId second = *line.Add(named("me", "r"));
  EXPECT_EQ(line.FindByRequestId("me", "r"), (std::vector<WaiterId>{first, second}));
  line.Remove(first);
  EXPECT_EQ(line.FindByRequestId("me", "r"), (std::vector<WaiterId>{second}));
  EXPECT_TRUE(line.FindByRequestId("me", "").empty());
}

TEST(WaitingLineTest, CountsTicketRequests) {
  WaitingLine line(10, 1 << 20);
  const WaiterId id = *line.Add(MakeTicketCaller());
  line.Add(MakeCaller());
  EXPECT_EQ(line.ticket_request_count(), 1u);
  EXPECT_EQ(line.TicketRequestCount("me"), 1u);
  line.Remove(id);
  EXPECT_EQ(line.TicketRequestCount("me"), 0u);
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
