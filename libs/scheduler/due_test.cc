#include "libs/scheduler/due.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/cron_jobs.h"

namespace callboard::scheduler {
namespace {

using core::CatchUp;
using core::FiringOutcome;
using test::At;
using test::CronJob;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Rows(const DueDecisions& due) {
  std::vector<std::string> texts;
  for (const DueDecisions::Row& row : due.rows) {
    texts.push_back(absl::StrCat(absl::FormatTime("%H:%M", row.occurrence.at, absl::UTCTimeZone()),
                                 " ", Name(row.outcome)));
  }
  return texts;
}

std::vector<std::string> Fires(const DueDecisions& due) {
  std::vector<std::string> texts;
  for (const core::Occurrence& fire : due.fires) {
    texts.push_back(absl::FormatTime("%H:%M", fire.at, absl::UTCTimeZone()));
  }
  return texts;
}

class DecideOccurrencesTest : public testing::Test {
 protected:
  DueDecisions Decide(const std::string& after, const std::string& now) {
    return DecideOccurrences(job_, {.after = At(after), .now = At(now)});
  }

  core::Job job_ = CronJob("job", "*/10 * * * *");
};

TEST_F(DecideOccurrencesTest, NothingIsDueBeforeItsTime) {
  const DueDecisions due = Decide("2026-01-05 00:00:00", "2026-01-05 00:09:59");
  EXPECT_THAT(Rows(due), IsEmpty());
  EXPECT_THAT(Fires(due), IsEmpty());
  EXPECT_EQ(due.cursor, At("2026-01-05 00:00:00"));
  EXPECT_EQ(NextDueAt(job_, {.after = due.cursor, .now = At("2026-01-05 00:09:59")}),
            At("2026-01-05 00:10:00"));
}

TEST_F(DecideOccurrencesTest, OccurrenceIsDueOnceAtItsTime) {
  const DueDecisions due = Decide("2026-01-05 00:00:00", "2026-01-05 00:10:00");
  EXPECT_THAT(Fires(due), ElementsAre("00:10"));
  EXPECT_EQ(due.cursor, At("2026-01-05 00:10:00"));
  EXPECT_THAT(Fires(Decide("2026-01-05 00:10:00", "2026-01-05 00:10:00")), IsEmpty());
}

TEST_F(DecideOccurrencesTest, CatchUpLatestRunsTheLastAndCoalescesTheOthers) {
  const DueDecisions due = Decide("2026-01-05 00:00:00", "2026-01-05 00:35:00");
  EXPECT_THAT(Fires(due), ElementsAre("00:30"));
  EXPECT_THAT(Rows(due), ElementsAre("00:10 coalesced", "00:20 coalesced"));
  EXPECT_EQ(due.rows.front().detail, "into 2026-01-05T00:30:00+00:00");
}

TEST_F(DecideOccurrencesTest, CatchUpLatestRunsNothingOlderThanADay) {
  job_ = CronJob("job", "0 0 * * *");
  EXPECT_THAT(Fires(Decide("2026-01-01 00:00:00", "2026-01-04 23:59:00")), ElementsAre("00:00"));
  job_ = CronJob("job", "0 0 * * 1");
  const DueDecisions due = Decide("2026-01-01 00:00:00", "2026-01-06 00:00:01");
  EXPECT_THAT(Fires(due), IsEmpty());
  EXPECT_THAT(Rows(due), ElementsAre("00:00 missed_window"));
}

TEST_F(DecideOccurrencesTest, CatchUpNoneRunsNothingLate) {
  job_.catch_up = {CatchUp::Kind::kNone};
  EXPECT_THAT(Rows(Decide("2026-01-05 00:00:00", "2026-01-05 00:25:00")),
              ElementsAre("00:10 missed_window", "00:20 missed_window"));
  const DueDecisions due = Decide("2026-01-05 00:00:00", "2026-01-05 00:21:00");
  EXPECT_THAT(Fires(due), ElementsAre("00:20"));
  EXPECT_THAT(Rows(due), ElementsAre("00:10 missed_window"));
}

TEST_F(DecideOccurrencesTest, CatchUpAllRunsTheLastOnesInOrder) {
  job_.catch_up = {CatchUp::Kind::kAll, 2};
  const DueDecisions due = Decide("2026-01-05 00:00:00", "2026-01-05 00:45:00");
  EXPECT_THAT(Fires(due), ElementsAre("00:30", "00:40"));
  EXPECT_THAT(Rows(due), ElementsAre("00:10 missed_window", "00:20 missed_window"));
}

TEST_F(DecideOccurrencesTest, PausedOccurrencesAreNotCaughtUp) {
  job_.catch_up = {CatchUp::Kind::kAll, 10};
  const DueDecisions due = DecideOccurrences(job_, {.after = At("2026-01-05 00:00:00"),
                                                    .now = At("2026-01-05 00:45:00"),
                                                    .paused_until = At("2026-01-05 00:30:00")});
  EXPECT_THAT(Rows(due), ElementsAre("00:10 paused", "00:20 paused"));
  EXPECT_THAT(Fires(due), ElementsAre("00:30", "00:40"));
}

TEST_F(DecideOccurrencesTest, JitterDelaysOnlyOccurrencesThatRun) {
  job_.jitter = absl::Minutes(5);
  const absl::Time nominal = At("2026-01-05 00:10:00");
  const absl::Duration jitter =
      core::OccurrenceJitter(job_, *core::NextOccurrence(job_, nominal - absl::Seconds(1)));
  ASSERT_GT(jitter, absl::Seconds(1));
  DueQuery query = {.after = At("2026-01-05 00:00:00"), .now = nominal + jitter - absl::Seconds(1)};
  EXPECT_EQ(NextDueAt(job_, query), nominal + jitter);
  EXPECT_THAT(Fires(DecideOccurrences(job_, query)), IsEmpty());
  query.jitter = false;
  EXPECT_THAT(Fires(DecideOccurrences(job_, query)), ElementsAre("00:10"));
  query.jitter = true;
  query.now = nominal + jitter;
  EXPECT_THAT(Fires(DecideOccurrences(job_, query)), ElementsAre("00:10"));
  query.now = nominal;
  query.paused_until = absl::InfiniteFuture();
  EXPECT_THAT(Rows(DecideOccurrences(job_, query)), ElementsAre("00:10 paused"));
}

TEST_F(DecideOccurrencesTest, SuppressedOccurrenceHasARowAtItsTime) {
  // On 2026-10-25 at 01:00 UTC the clocks in Berlin go back from 03:00 to 02:00.
  job_ = CronJob("job", "30 2 * * *", "Europe/Berlin");
  const DueDecisions due = Decide("2026-10-24 12:00:00", "2026-10-25 01:30:00");
  EXPECT_THAT(Rows(due), ElementsAre("01:30 dst_fold_suppressed"));
  EXPECT_THAT(Fires(due), ElementsAre("00:30"));
}

TEST_F(DecideOccurrencesTest, TenYearsOfSecondsWriteABoundedNumberOfRows) {
  job_ = CronJob("job", "* * * * * *");
  const DueDecisions due = Decide("2016-01-05 00:00:00", "2026-01-05 00:00:00");
  EXPECT_EQ(due.fires.size(), 1u);
  ASSERT_EQ(due.rows.size(), kMissedRowsMax + 1);
  EXPECT_EQ(due.rows.front().more, kMissedCountMax);
  EXPECT_EQ(due.rows.front().detail,
            "into 2026-01-05T00:00:00+00:00; and more than 10000 more since "
            "2016-01-05T00:00:00+00:00");
  EXPECT_EQ(due.rows[1].more, 0u);
  EXPECT_EQ(due.cursor, At("2026-01-05 00:00:00"));
}

TEST_F(DecideOccurrencesTest, SummaryRowHasCountAndStart) {
  job_ = CronJob("job", "* * * * * *");
  const DueDecisions due = Decide("2026-01-05 00:00:00", "2026-01-05 00:20:00");
  ASSERT_EQ(due.rows.size(), kMissedRowsMax + 1);
  // All occurrences except the one that runs.
  EXPECT_EQ(due.rows.size() + due.rows.front().more, 20u * 60 - 1);
  EXPECT_EQ(due.rows.front().detail,
            "into 2026-01-05T00:20:00+00:00; and 198 more since 2026-01-05T00:00:01+00:00");
}

}  // namespace
}  // namespace callboard::scheduler
