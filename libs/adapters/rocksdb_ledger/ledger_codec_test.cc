#include "libs/adapters/rocksdb_ledger/ledger_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/testing/status_matchers.h"

namespace callboard::adapters {
namespace {

using test::HasReason;
using test::IsOk;

TEST(LedgerCodecTest, KeysSortByJobAndThenByTimeAlsoBefore1970) {
  const auto key = [](absl::string_view job, int64_t second) {
    return OccurrenceKey(kRowPrefix, job, absl::FromUnixSeconds(second));
  };
  EXPECT_LT(key("a", -1), key("a", 0));
  EXPECT_LT(key("a", 0), key("a", 1));
  EXPECT_LT(key("a", 1), KeyAfterJob(kRowPrefix, "a"));
  EXPECT_LT(KeyAfterJob(kRowPrefix, "a"), key("a-b", -1));
  EXPECT_LT(key("a-b", 255), key("a-b", 256));
}

TEST(LedgerCodecTest, KeyIsReadAsItWasWritten) {
  const absl::Time nominal = absl::FromUnixSeconds(-7);
  const std::string key = OccurrenceKey(kIntentPrefix, "job", nominal);
  EXPECT_EQ(ParseOccurrenceKey(kIntentPrefix, key), (OccurrenceName{"job", nominal}));
  EXPECT_FALSE(ParseOccurrenceKey(kRowPrefix, key).has_value());
  EXPECT_FALSE(ParseOccurrenceKey(kIntentPrefix, key + "x").has_value());
  EXPECT_FALSE(ParseOccurrenceKey(kIntentPrefix, "intent/job").has_value());
  EXPECT_EQ(ParseOccurrenceKey(kRowPrefix, OccurrenceKey(kRowPrefix, "job", nominal, "t1")),
            (OccurrenceName{"job", nominal, "t1"}));
}

TEST(LedgerCodecTest, EveryOutcomeIsKept) {
  for (const core::FiringOutcome outcome : core::kFiringOutcomes) {
    const core::Firing row = {
        .job = "job", .nominal = absl::FromUnixSeconds(1), .outcome = outcome};
    const auto read = DecodeRow(OccurrenceKey(kRowPrefix, "job", row.nominal), Encode(row));
    ASSERT_THAT(read, IsOk());
    EXPECT_EQ(read->outcome, outcome);
  }
}

TEST(LedgerCodecTest, TextThatIsNotUtf8IsRepairedOnReading) {
  const std::string broken = "cut \xe2\x82";
  const std::string repaired = "cut \xef\xbf\xbd\xef\xbf\xbd";
  const core::Firing row = {.job = "job",
                            .nominal = absl::FromUnixSeconds(1),
                            .decided_at = absl::FromUnixSeconds(2),
                            .queue_id = broken,
                            .request_id = broken,
                            .detail = broken};
  const auto read = DecodeRow(OccurrenceKey(kRowPrefix, "job", row.nominal), Encode(row));
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->queue_id, repaired);
  EXPECT_EQ(read->request_id, repaired);
  EXPECT_EQ(read->detail, repaired);

  scheduler::Ledgered ledgered;
  scheduler::JobState state = {.job = "job",
                               .watched = {broken},
                               .triggered = {broken},
                               .open_triggers = {broken},
                               .last_queue_id = broken};
  state.pause = scheduler::Pause{.by = broken, .why = broken};
  ASSERT_THAT(Decode("job/job", Encode(state), ledgered), IsOk());
  const scheduler::JobState& found = ledgered.jobs.at("job");
  EXPECT_EQ(found.watched, std::vector<std::string>{repaired});
  EXPECT_EQ(found.triggered, std::vector<std::string>{repaired});
  EXPECT_EQ(found.open_triggers, std::vector<std::string>{repaired});
  EXPECT_EQ(found.last_queue_id, repaired);
  EXPECT_EQ(found.pause->by, repaired);
  EXPECT_EQ(found.pause->why, repaired);

  ASSERT_THAT(
      Decode("backfill/b", Encode(scheduler::Backfill{.job = broken, .by = broken}), ledgered),
      IsOk());
  EXPECT_EQ(ledgered.backfills.at("b").job, repaired);
  EXPECT_EQ(ledgered.backfills.at("b").by, repaired);
}

TEST(LedgerCodecTest, WhatNoSchedulerWroteIsRefused) {
  scheduler::Ledgered ledgered;
  const std::string key = OccurrenceKey(kRowPrefix, "job", absl::FromUnixSeconds(1));
  EXPECT_THAT(DecodeRow(key, ""), HasReason("STORE_REFUSED"));
  EXPECT_THAT(DecodeRow(key, "\xff"), HasReason("STORE_REFUSED"));
  EXPECT_THAT(DecodeRow("row/x", ""), HasReason("STORE_REFUSED"));
  EXPECT_THAT(Decode("job/x", "\xff", ledgered), HasReason("STORE_REFUSED"));
  EXPECT_THAT(Decode("other", "", ledgered), HasReason("STORE_REFUSED"));
  // Of a backfill that goes on, something is left.
  const scheduler::Backfill over = {
      .id = "b", .occurrences = {absl::FromUnixSeconds(1)}, .done = 1};
  EXPECT_THAT(Decode("backfill/b", Encode(over), ledgered), HasReason("STORE_REFUSED"));
}

}  // namespace
}  // namespace callboard::adapters
