#include "services/cli/job_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using test::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMarch29 = 1774742400;  // 2026-03-29 in UTC.

int64_t Seconds(const std::string& text) {
  const absl::StatusOr<absl::Time> time = ParseInstant("--from", text);
  return time.ok() ? absl::ToUnixSeconds(*time) : -1;
}

MATCHER_P(IsUsageError, words, "") {
  *result_listener << arg.status();
  return ExitCodeOf(arg.status()) == ExitCode::kUsage &&
         ::testing::ExplainMatchResult(HasSubstr(words), std::string(arg.status().message()),
                                       result_listener);
}

TEST(JobRequestsTest, InstantIsRfc3339OrADateInUtc) {
  EXPECT_EQ(Seconds("2026-03-29"), kMarch29);
  EXPECT_EQ(Seconds("2026-03-29T02:30:00Z"), kMarch29 + 9000);
  EXPECT_EQ(Seconds("2026-03-29T02:30:00+02:00"), kMarch29 + 1800);
  EXPECT_EQ(Seconds("2026-03-29T00:00:00.25Z"), kMarch29);
}

TEST(JobRequestsTest, WrongInstantIsAUsageErrorWithTheValidForms) {
  for (const char* text : {"", "tomorrow", "2026-02-30", "2026-03-29T02:30:00", "2026-03-29 junk",
                           "infinite-future", "infinite-past", "10000-01-01", "0000-01-01"}) {
    EXPECT_THAT(ParseInstant("--from", text), IsUsageError("--from: '"));
    EXPECT_THAT(ParseInstant("--from", text),
                IsUsageError("expected: 2026-03-29T02:30:00Z or 2026-03-29"));
  }
}

TEST(JobRequestsTest, PreviewTakesAJobOrSchedules) {
  const auto of_job = PreviewRequest({.job = "nightly", .from = "2026-03-29", .limit = 3});
  ASSERT_THAT(of_job, IsOk());
  EXPECT_EQ(of_job->name(), "nightly");
  EXPECT_EQ(of_job->from().seconds(), kMarch29);
  EXPECT_FALSE(of_job->has_until());
  EXPECT_EQ(of_job->limit(), 3);
  const auto of_schedules = PreviewRequest({.schedules = {"0 0 2 * * *", "@daily"},
                                            .time_zone = "Europe/Berlin",
                                            .seconds = true,
                                            .until = "2026-03-29"});
  ASSERT_THAT(of_schedules, IsOk());
  EXPECT_EQ(of_schedules->name(), "");
  EXPECT_THAT(of_schedules->schedules(), ElementsAre("0 0 2 * * *", "@daily"));
  EXPECT_EQ(of_schedules->time_zone(), "Europe/Berlin");
  EXPECT_TRUE(of_schedules->seconds());
  EXPECT_FALSE(of_schedules->has_from());
  EXPECT_EQ(of_schedules->until().seconds(), kMarch29);
  EXPECT_EQ(of_schedules->limit(), 10);
}

TEST(JobRequestsTest, PreviewNeedsEitherAJobOrSchedules) {
  EXPECT_THAT(PreviewRequest({}), IsUsageError("name a job"));
  EXPECT_THAT(PreviewRequest({.time_zone = "Europe/Berlin"}), IsUsageError("name a job"));
  EXPECT_THAT(PreviewRequest({.job = "a", .schedules = {"@daily"}}),
              IsUsageError("a job has its own schedule"));
  EXPECT_THAT(PreviewRequest({.job = "a", .time_zone = "Europe/Berlin"}),
              IsUsageError("--time_zone"));
  EXPECT_THAT(PreviewRequest({.job = "a", .seconds = true}), IsUsageError("--seconds"));
}

TEST(JobRequestsTest, TimeRangeMustEndAfterItBegins) {
  for (const char* until : {"2026-03-29", "2026-03-28"}) {
    EXPECT_THAT(PreviewRequest({.job = "a", .from = "2026-03-29", .until = until}),
                IsUsageError("later than --from"));
    EXPECT_THAT(BackfillRequest({.job = "a", .from = "2026-03-29", .until = until}, "id"),
                IsUsageError("later than --from"));
  }
}

TEST(JobRequestsTest, RequestsWithoutAnIdUseTheGeneratedOne) {
  EXPECT_EQ(TriggerRequest({.job = "a"}, "made-up").trigger_id(), "made-up");
  EXPECT_EQ(TriggerRequest({.job = "a", .trigger_id = "mine"}, "made-up").trigger_id(), "mine");
  const JobArguments span = {.job = "a", .from = "2026-03-28", .until = "2026-03-29"};
  EXPECT_EQ(BackfillRequest(span, "made-up")->backfill_id(), "made-up");
  JobArguments named = span;
  named.backfill_id = "mine";
  EXPECT_EQ(BackfillRequest(named, "made-up")->backfill_id(), "mine");
}

TEST(JobRequestsTest, RequestsHaveAllArguments) {
  const v1::TriggerJobRequest trigger = TriggerRequest({.job = "nightly", .force = true}, "id");
  EXPECT_EQ(trigger.name(), "nightly");
  EXPECT_TRUE(trigger.force());
  const auto backfill = BackfillRequest(
      {.job = "nightly", .from = "2026-03-28", .until = "2026-03-29", .dry_run = true}, "id");
  ASSERT_THAT(backfill, IsOk());
  EXPECT_EQ(backfill->name(), "nightly");
  EXPECT_EQ(backfill->from().seconds(), kMarch29 - 86400);
  EXPECT_EQ(backfill->until().seconds(), kMarch29);
  EXPECT_TRUE(backfill->dry_run());
  const auto pause =
      PauseRequest({.job = "nightly", .until = "2026-03-29", .why = "the disk is full"});
  ASSERT_THAT(pause, IsOk());
  EXPECT_EQ(pause->name(), "nightly");
  EXPECT_EQ(pause->why(), "the disk is full");
  EXPECT_EQ(pause->until().seconds(), kMarch29);
  EXPECT_FALSE(PauseRequest({.job = "nightly"})->has_until());
}

}  // namespace
}  // namespace callboard::cli
