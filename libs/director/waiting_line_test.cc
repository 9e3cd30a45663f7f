#include "libs/director/waiting_line.h"

#include <gtest/gtest.h>

#include <memory>

namespace callboard::director {
namespace {

Caller Somebody(size_t prompt_bytes = 0, core::TaskSource source = core::TaskSource::kApi) {
  Caller caller = {.identity = "me",
                   .arrived = absl::UnixEpoch(),
                   .submission = std::make_shared<core::Submission>()};
  caller.submission->spec.prompt.resize(prompt_bytes, 'x');
  caller.submission->spec.source = source;
  return caller;
}
Caller Reserving() { return {.identity = "me", .arrived = absl::UnixEpoch()}; }

TEST(WaitingLineTest, ServesFirstComeFirst) {
  WaitingLine line(10, 1 << 20);
  const WaiterId first = *line.Add(Somebody());
  const WaiterId second = *line.Add(Reserving());
  EXPECT_EQ(line.Next(true), first);
  line.Remove(first);
  EXPECT_EQ(line.Next(true), second);
}

TEST(WaitingLineTest, SchedulerIsPassedByOnlyWhileItMayNotCome) {
  WaitingLine line(10, 1 << 20);
  const WaiterId scheduler = *line.Add(Somebody(0, core::TaskSource::kScheduler));
  EXPECT_EQ(line.Next(/*scheduler_may=*/false), std::nullopt);
  const WaiterId other = *line.Add(Somebody());
  EXPECT_EQ(line.Next(/*scheduler_may=*/false), other);
  EXPECT_EQ(line.Next(/*scheduler_may=*/true), scheduler);
}

TEST(WaitingLineTest, IsBoundedInNumber) {
  WaitingLine line(1, 1 << 20);
  const WaiterId first = *line.Add(Somebody());
  EXPECT_EQ(line.Add(Somebody()), std::nullopt);
  line.Remove(first);
  EXPECT_NE(line.Add(Somebody()), std::nullopt);
}

TEST(WaitingLineTest, IsBoundedInBytesAndGivesThemBack) {
  WaitingLine line(10, 100'000);
  const WaiterId large = *line.Add(Somebody(60'000));
  EXPECT_EQ(line.Add(Somebody(60'000)), std::nullopt);
  EXPECT_FALSE(line.has_too_many());
  line.Remove(large);
  EXPECT_EQ(line.bytes(), 0u);
  EXPECT_NE(line.Add(Somebody(60'000)), std::nullopt);
}

TEST(WaitingLineTest, OneMayWaitHoweverLargeItIs) {
  WaitingLine line(10, 100);
  const WaiterId large = *line.Add(Somebody(60'000));
  EXPECT_EQ(line.Add(Somebody(1)), std::nullopt);
  line.Remove(large);
  EXPECT_NE(line.Add(Somebody(60'000)), std::nullopt);
}

TEST(WaitingLineTest, CountsWhatIsHeld) {
  WaitingLine line(10, 5'000);
  EXPECT_NE(line.Add(Somebody(1)), std::nullopt);
  EXPECT_NE(line.Add(Somebody(1)), std::nullopt) << line.bytes();
  EXPECT_NE(line.Add(Reserving()), std::nullopt) << line.bytes();
}

TEST(WaitingLineTest, CountsEveryTextOfATask) {
  WaitingLine line(10, 1 << 20);
  line.Add(Somebody());
  const uint64_t small = line.bytes();
  Caller large = Somebody();
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

TEST(WaitingLineTest, FindsThoseWithARequestId) {
  WaitingLine line(10, 1 << 20);
  const auto named = [](const std::string& identity, const std::string& id) {
    Caller caller = Somebody();
    caller.identity = identity;
    caller.submission->spec.request_id = id;
    return caller;
  };
  const WaiterId first = *line.Add(named("me", "r"));
  line.Add(named("you", "r"));
  line.Add(named("me", "other"));
  line.Add(Somebody());
  const WaiterId second = *line.Add(named("me", "r"));
  EXPECT_EQ(line.WithRequest("me", "r"), (std::vector<WaiterId>{first, second}));
  line.Remove(first);
  EXPECT_EQ(line.WithRequest("me", "r"), (std::vector<WaiterId>{second}));
  EXPECT_TRUE(line.WithRequest("me", "").empty());
}

TEST(WaitingLineTest, CountsThoseWhoWantTickets) {
  WaitingLine line(10, 1 << 20);
  const WaiterId id = *line.Add(Reserving());
  line.Add(Somebody());
  EXPECT_EQ(line.wanting_tickets(), 1u);
  EXPECT_EQ(line.WantingTickets("me"), 1u);
  line.Remove(id);
  EXPECT_EQ(line.WantingTickets("me"), 0u);
}

TEST(TicketsTest, IsValidForItsHolderUntilItsEnd) {
  Tickets tickets;
  tickets.Add("t", {"me", absl::Seconds(10)});
  EXPECT_TRUE(tickets.IsValid("t", "me", absl::Seconds(9)));
  EXPECT_FALSE(tickets.IsValid("t", "you", absl::Seconds(9)));
  EXPECT_FALSE(tickets.IsValid("t", "me", absl::Seconds(10)));
  EXPECT_EQ(tickets.NextEnd(), absl::Seconds(10));
  tickets.Expire(absl::Seconds(10));
  EXPECT_EQ(tickets.size(), 0u);
}

}  // namespace
}  // namespace callboard::director
