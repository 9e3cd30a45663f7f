#include "libs/store/rocksdb_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/testing/status_matchers.h"

namespace callboard::store {
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

TEST(LedgerCodecTest, KeysRoundTrip) {
  const absl::Time nominal = absl::FromUnixSeconds(-7);
  const std::string key = OccurrenceKey(kIntentPrefix, "job", nominal);
  EXPECT_EQ(ParseOccurrenceKey(kIntentPrefix, key), (OccurrenceId{"job", nominal}));
  EXPECT_FALSE(ParseOccurrenceKey(kRowPrefix, key).has_value());
  EXPECT_FALSE(ParseOccurrenceKey(kIntentPrefix, key + "x").has_value());
  EXPECT_FALSE(ParseOccurrenceKey(kIntentPrefix, "intent/job").has_value());
  EXPECT_EQ(ParseOccurrenceKey(kRowPrefix, OccurrenceKey(kRowPrefix, "job", nominal, "t1")),
            (OccurrenceId{"job", nominal, "t1"}));
}

TEST(LedgerCodecTest, OutcomesRoundTrip) {
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

  scheduler::LedgerContents contents;
  scheduler::JobState state = {.job = "job",
                               .tracked_tasks = {broken},
                               .triggered_tasks = {broken},
                               .open_triggers = {broken},
                               .last_queue_id = broken};
  state.pause = scheduler::Pause{.by = broken, .why = broken};
  ASSERT_THAT(Decode("job/job", Encode(state), contents), IsOk());
  const scheduler::JobState& found = contents.jobs.at("job");
  EXPECT_EQ(found.tracked_tasks, std::vector<std::string>{repaired});
  EXPECT_EQ(found.triggered_tasks, std::vector<std::string>{repaired});
  EXPECT_EQ(found.open_triggers, std::vector<std::string>{repaired});
  EXPECT_EQ(found.last_queue_id, repaired);
  EXPECT_EQ(found.pause->by, repaired);
  EXPECT_EQ(found.pause->why, repaired);

  ASSERT_THAT(
      Decode("backfill/b", Encode(scheduler::Backfill{.job = broken, .by = broken}), contents),
      IsOk());
  EXPECT_EQ(contents.backfills.at("b").job, repaired);
  EXPECT_EQ(contents.backfills.at("b").by, repaired);
}

TEST(LedgerCodecTest, InvalidRecordsAreRefused) {
  scheduler::LedgerContents contents;
  const std::string key = OccurrenceKey(kRowPrefix, "job", absl::FromUnixSeconds(1));
  EXPECT_THAT(DecodeRow(key, ""), HasReason("STORE_REFUSED"));
  EXPECT_THAT(DecodeRow(key, "\xff"), HasReason("STORE_REFUSED"));
  EXPECT_THAT(DecodeRow("row/x", ""), HasReason("STORE_REFUSED"));
  EXPECT_THAT(Decode("job/x", "\xff", contents), HasReason("STORE_REFUSED"));
  EXPECT_THAT(Decode("other", "", contents), HasReason("STORE_REFUSED"));
  // A backfill that has not ended must have occurrences left.
  const scheduler::Backfill ended = {
      .id = "b", .occurrences = {absl::FromUnixSeconds(1)}, .done = 1};
  EXPECT_THAT(Decode("backfill/b", Encode(ended), contents), HasReason("STORE_REFUSED"));
}

}  // namespace
}  // namespace callboard::store
