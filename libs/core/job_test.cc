#include "libs/core/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "libs/testing/cron_jobs.h"
#include "libs/testing/status_matchers.h"

namespace callboard::core {
namespace {

using test::At;
using test::CronJob;
using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(JobTest, NameFitsIntoARequestId) {
  EXPECT_THAT(CheckJob(CronJob("nightly-2.of_us", "* * * * *")), IsOk());
  EXPECT_THAT(CheckJob(CronJob(std::string(kJobNameBytesMax, 'x'), "* * * * *")), IsOk());
  EXPECT_THAT(CheckJob(CronJob(std::string(kJobNameBytesMax + 1, 'x'), "* * * * *")),
              StatusIs(kInvalid, HasSubstr("name")));
  EXPECT_THAT(CheckJob(CronJob("a/b", "* * * * *")), StatusIs(kInvalid));
  EXPECT_THAT(CheckJob(CronJob("", "* * * * *")), StatusIs(kInvalid));
  const std::string longest =
      BackfillRequestId(std::string(kJobNameBytesMax, 'x'), std::string(kCallNameBytesMax, 'y'),
                        absl::FromUnixSeconds(-9'000'000'000'000));
  EXPECT_LE(longest.size(), kRequestIdBytesMax);
}

TEST(JobTest, LimitErrorsNameTheKeyInTheFile) {
  Job job = CronJob("job", "* * * * *");
  job.catch_up = {CatchUp::Kind::kAll, 0};
  EXPECT_THAT(CheckJob(job), StatusIs(kInvalid, HasSubstr("catch_up")));
  job.catch_up.count = kCatchUpMax + 1;
  EXPECT_THAT(CheckJob(job), StatusIs(kInvalid, HasSubstr("catch_up")));
  job.catch_up.count = kCatchUpMax;
  EXPECT_THAT(CheckJob(job), IsOk());
  job.queue_full_wait = kQueueFullWaitMax + absl::Seconds(1);
  EXPECT_THAT(CheckJob(job), StatusIs(kInvalid, HasSubstr("on_queue_full")));
  job.queue_full_wait = absl::ZeroDuration();
  job.jitter = -absl::Seconds(1);
  EXPECT_THAT(CheckJob(job), StatusIs(kInvalid, HasSubstr("jitter")));
  job.jitter = absl::ZeroDuration();
  job.start = job.end = At("2026-01-01 00:00:00");
  EXPECT_THAT(CheckJob(job), StatusIs(kInvalid, HasSubstr("end")));
}

TEST(JobTest, OccurrencesAreBetweenStartAndEnd) {
  Job job = CronJob("job", "0 * * * *");
  job.start = At("2026-01-05 02:00:00");
  job.end = At("2026-01-05 04:00:00");
  EXPECT_EQ(NextOccurrence(job, absl::InfinitePast())->at, job.start);
  EXPECT_EQ(NextOccurrence(job, At("2026-01-05 02:30:00"))->at, At("2026-01-05 03:00:00"));
  EXPECT_FALSE(NextOccurrence(job, At("2026-01-05 03:00:00")).has_value());
  EXPECT_EQ(PreviousOccurrence(job, absl::InfiniteFuture())->at, At("2026-01-05 03:00:00"));
  EXPECT_FALSE(PreviousOccurrence(job, job.start).has_value());
}

TEST(JobTest, ListOccurrencesStopsAtTheEndAndAtTheLimit) {
  const Job job = CronJob("job", "0 * * * *");
  const absl::Time from = At("2026-01-05 02:00:00");
  EXPECT_EQ(ListOccurrences(job, from, At("2026-01-05 05:00:00"), 10).size(), 3u);
  EXPECT_EQ(ListOccurrences(job, from, absl::InfiniteFuture(), 10).size(), 10u);
  EXPECT_EQ(ListOccurrences(job, from, from, 10).size(), 0u);
}

TEST(JobTest, JitterIsStableAndEndsBeforeTheNextOccurrence) {
  Job job = CronJob("job", "* * * * *");
  job.jitter = absl::Hours(1);
  std::set<absl::Duration> seen;
  auto occurrence = NextOccurrence(job, At("2026-01-05 00:00:00"));
  for (int i = 0; i < 100; ++i, occurrence = NextOccurrence(job, occurrence->at)) {
    const absl::Duration jitter = OccurrenceJitter(job, *occurrence);
    EXPECT_GE(jitter, absl::ZeroDuration());
    EXPECT_LT(jitter, absl::Minutes(1));
    EXPECT_EQ(jitter, OccurrenceJitter(job, *occurrence));
    seen.insert(jitter);
  }
  EXPECT_GT(seen.size(), 90u);
  job.jitter = absl::Seconds(2);
  EXPECT_LT(OccurrenceJitter(job, *occurrence), absl::Seconds(2));
  job.jitter = absl::ZeroDuration();
  EXPECT_EQ(OccurrenceJitter(job, *occurrence), absl::ZeroDuration());
}

TEST(JobTest, SubmissionSharesTheTaskAndAddsRequestIdAndOverlap) {
  const Job job = CronJob("job", "* * * * *");
  const JobSubmission submission = MakeJobSubmission(
      job, CronRequestId("job", absl::FromUnixSeconds(60)), OverlapPolicy::kQueueOne);
  EXPECT_EQ(submission.job, "job");
  EXPECT_EQ(submission.task, job.task);
  EXPECT_EQ(submission.request_id, "cron/job/60");
  EXPECT_EQ(submission.overlap, (Overlap{"job", OverlapPolicy::kQueueOne}));
  EXPECT_EQ(submission.policy, QueuePolicy::kReject);
  EXPECT_EQ(TriggerRequestId("job", "t"), "trigger/job/t");
  EXPECT_EQ(BackfillRequestId("job", "b", absl::FromUnixSeconds(60)), "backfill/job/b/60");
}

TEST(JobTest, StatusIsQueuedIfThereIsATaskElseTheOutcome) {
  for (const FiringOutcome outcome : kFiringOutcomes) {
    EXPECT_EQ(StatusText(outcome) == "queued", HasTask(outcome));
    EXPECT_NE(Name(outcome), "");
  }
  EXPECT_EQ(StatusText(FiringOutcome::kDstGapMoved), "queued");
  EXPECT_EQ(StatusText(FiringOutcome::kSkippedQueueFull), "skipped_queue_full");
}

}  // namespace
}  // namespace callboard::core
