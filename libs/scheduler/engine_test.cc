// Tests of jobs, the jobs file, the clock, and the limits on writes.
#include "libs/scheduler/engine.h"

#include "libs/testing/scheduler_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::scheduler {
namespace {

using core::CatchUp;
using test::At;
using test::CronJob;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class EngineTest : public test::SchedulerFixture {
 protected:
  const core::Job minutely_ = CronJob("job", "* * * * *");
};

TEST_F(EngineTest, OccurrenceIsSubmittedOnTimeWithItsRequestId) {
  Start({minutely_});
  EXPECT_THAT(requests_, IsEmpty());
  Advance(absl::Seconds(30));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), "cron/job/1767571260");
  EXPECT_EQ(NextSubmit().overlap, (core::Overlap{"job", core::OverlapPolicy::kSkip}));
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1"));
  EXPECT_EQ(State("job").last_queue_id, "queue-1");
  EXPECT_EQ(State("job").cursor, At("2026-01-05 00:01:00"));
}

TEST_F(EngineTest, IntentIsStoredBeforeTheSubmitAndRemovedWithTheRow) {
  Start({minutely_});
  now_.wall += absl::Seconds(30);
  engine_->FireTimers(now_);
  const Outcome outcome = engine_->TakeOutcome(now_);
  ASSERT_EQ(outcome.requests.size(), 1u);
  ASSERT_EQ(outcome.changes.size(), 2u);
  EXPECT_EQ(std::get<Intent>(outcome.changes[0]).nominal, At("2026-01-05 00:01:00"));
  EXPECT_EQ(std::get<JobState>(outcome.changes[1]).cursor, At("2026-01-05 00:01:00"));
  engine_->OnRequestAnswer(std::get<SubmitRequest>(outcome.requests[0]).id, AcceptedTask{"queue-1"},
                           now_);
  const Outcome next_outcome = engine_->TakeOutcome(now_);
  ASSERT_EQ(next_outcome.changes.size(), 3u);
  EXPECT_EQ(std::get<core::Firing>(next_outcome.changes[0]).queue_id, "queue-1");
  EXPECT_EQ(std::get<IntentResolved>(next_outcome.changes[1]).nominal, At("2026-01-05 00:01:00"));
}

TEST_F(EngineTest, JobsDueTogetherAreOneBatch) {
  std::vector<core::Job> jobs;
  for (int i = 0; i < 1000; ++i) jobs.push_back(CronJob(absl::StrCat("job-", i), "* * * * *"));
  Start(jobs);
  now_.wall += absl::Seconds(30);
  engine_->FireTimers(now_);
  const Outcome outcome = engine_->TakeOutcome(now_);
  EXPECT_EQ(outcome.changes.size(), 2000u);
  // The others follow when these are answered.
  EXPECT_EQ(outcome.requests.size(), kCallsMax);
  for (const OutgoingRequest& request : outcome.requests) {
    engine_->OnRequestAnswer(std::get<SubmitRequest>(request).id, Full(), now_);
  }
  const Outcome next_outcome = engine_->TakeOutcome(now_);
  EXPECT_EQ(next_outcome.changes.size(), 3 * kCallsMax);
  EXPECT_EQ(next_outcome.requests.size(), kCallsMax);
}

TEST_F(EngineTest, NewJobDoesNotCatchUpEarlierOccurrences) {
  Start({});
  Advance(absl::Hours(2));
  SetJobs({minutely_});
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), IsEmpty());
}

TEST_F(EngineTest, RemovedJobReturnsAsNew) {
  Start({minutely_});
  SetJobs({});
  Advance(absl::Hours(2));
  SetJobs({minutely_});
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), IsEmpty());
  Advance(absl::Minutes(1));
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(EngineTest, RemovedJobIsForgottenWithItsRowsAfterRetention) {
  Start({minutely_});
  Advance(absl::Seconds(30));
  Accept();
  SetJobs({});
  Advance(kRemovedJobRetention - absl::Seconds(1));
  EXPECT_EQ(Rows("job").size(), 1u);
  Advance(absl::Seconds(1));
  EXPECT_THAT(Rows("job"), IsEmpty());
  EXPECT_THAT(disk_.contents().jobs, IsEmpty());
}

TEST_F(EngineTest, ChangedScheduleAppliesFromTheChange) {
  Start({CronJob("job", "0 * * * *")});
  Advance(absl::Minutes(45));
  SetJobs({minutely_});
  EXPECT_THAT(requests_, IsEmpty());
  Advance(absl::Minutes(1));
  EXPECT_EQ(requests_.size(), 1u);
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:46:00 fired queue-1"));
}

TEST_F(EngineTest, JobChangeDoesNotLoseAnOccurrenceDelayedByJitter) {
  core::Job job = CronJob("job", "0 * * * *");
  job.jitter = absl::Minutes(50);
  Start({job});
  now_.wall = At("2026-01-05 01:00:00");
  Turn();
  ASSERT_THAT(requests_, IsEmpty());
  SetJobs({minutely_});
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 01:00:00")));
}

TEST_F(EngineTest, JitterDelaysOnlyTheSubmit) {
  core::Job job = CronJob("job", "0 * * * *");
  job.jitter = absl::Minutes(10);
  Start({job});
  const absl::Time nominal = At("2026-01-05 01:00:00");
  const absl::Duration jitter = core::OccurrenceJitter(job, *core::NextOccurrence(job, now_.wall));
  ASSERT_GT(jitter, absl::Seconds(1));
  now_.wall = nominal + jitter - absl::Milliseconds(1);
  Turn();
  EXPECT_THAT(requests_, IsEmpty());
  Advance(absl::Milliseconds(1));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", nominal));
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("01:00:00 fired queue-1"));
}

TEST_F(EngineTest, RestartAppliesCatchUp) {
  core::Job all = CronJob("all", "* * * * *");
  all.catch_up = {CatchUp::Kind::kAll, 2};
  core::Job none = CronJob("none", "* * * * *");
  none.catch_up = {CatchUp::Kind::kNone};
  Start({minutely_, all, none});
  now_.wall = At("2026-01-05 00:04:59");
  now_.wall += absl::Minutes(1) + absl::Seconds(3);
  Start({minutely_, all, none});
  AcceptAll();
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 coalesced", "00:02:00 coalesced", "00:03:00 coalesced",
                          "00:04:00 coalesced", "00:05:00 coalesced", "00:06:00 fired queue-2"));
  EXPECT_THAT(Rows("all"), ElementsAre("00:01:00 missed_window", "00:02:00 missed_window",
                                       "00:03:00 missed_window", "00:04:00 missed_window",
                                       "00:05:00 fired queue-1", "00:06:00 fired queue-4"));
  EXPECT_THAT(Rows("none"), ElementsAre("00:01:00 missed_window", "00:02:00 missed_window",
                                        "00:03:00 missed_window", "00:04:00 missed_window",
                                        "00:05:00 missed_window", "00:06:00 fired queue-3"));
}

TEST_F(EngineTest, ClockSetForwardCountsAsDowntime) {
  Start({minutely_});
  StepWall(absl::Minutes(3));
  EXPECT_THAT(notices_, Contains("clock_set_forward"));
  AcceptAll();
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 coalesced", "00:02:00 coalesced", "00:03:00 fired queue-1"));
}

TEST_F(EngineTest, NoOccurrenceRunsTwiceWhenTheClockIsSetBack) {
  Start({minutely_});
  Advance(absl::Minutes(1));
  AcceptAll();
  StepWall(-absl::Hours(2));
  EXPECT_THAT(notices_, Contains("clock_set_back"));
  EXPECT_EQ(View("job").waits_until, At("2026-01-05 00:01:00"));
  AdvanceInSteps(absl::Hours(2) - absl::Seconds(31));
  EXPECT_THAT(requests_, IsEmpty());
  AdvanceInSteps(absl::Seconds(61));
  AcceptAll();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1", "00:02:00 fired queue-2"));
  EXPECT_FALSE(View("job").waits_until.has_value());
}

TEST_F(EngineTest, ClockSetForwardAndBackDuringJitterDoesNotStallTheJob) {
  core::Job job = CronJob("job", "0 * * * *");
  job.jitter = absl::Minutes(50);
  Start({job});
  StepWall(At("2026-01-07 00:00:01") - now_.wall);
  StepWall(At("2026-01-05 00:31:00") - now_.wall);
  ASSERT_THAT(requests_, IsEmpty());
  AdvanceInSteps(absl::Minutes(80));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 01:00:00")));
}

TEST_F(EngineTest, RemovedAndAddedJobRunsNothingTwiceAfterTheClockIsSetBack) {
  Start({minutely_});
  Advance(absl::Minutes(1));
  AcceptAll();
  StepWall(-absl::Hours(2));
  SetJobs({});
  SetJobs({minutely_});
  EXPECT_EQ(View("job").waits_until, At("2026-01-05 00:01:00"));
}

TEST_F(EngineTest, RemovingAndAddingAJobResetsACursorFarAhead) {
  Start({minutely_});
  StepWall(absl::Hours(24 * 365));
  AcceptAll();
  StepWall(-absl::Hours(24 * 365));
  EXPECT_TRUE(View("job").waits_until.has_value());
  SetJobs({});
  SetJobs({minutely_});
  EXPECT_FALSE(View("job").waits_until.has_value());
  Advance(absl::Minutes(1));
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(EngineTest, SmallClockStepsAreNotReported) {
  Start({minutely_});
  StepWall(absl::Seconds(5));
  StepWall(-absl::Seconds(5));
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(EngineTest, JobEndsAfterMaxRunsAlsoAcrossARestart) {
  core::Job job = minutely_;
  job.max_runs = 2;
  Start({job});
  Advance(absl::Minutes(1));
  Answer(Overlap("queue-9"));
  Advance(absl::Minutes(1));
  AcceptAll();
  Start({job});
  Advance(absl::Minutes(1));
  AcceptAll();
  Advance(absl::Minutes(10));
  Start({job});
  Advance(absl::Minutes(10));
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 skipped_overlap queue-9", "00:02:00 fired queue-1",
                                       "00:03:00 fired queue-2"));
  EXPECT_THAT(View("job").next, IsEmpty());
  job.max_runs = 3;
  SetJobs({job});
  EXPECT_THAT(requests_, IsEmpty());
  Advance(absl::Minutes(1));
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(EngineTest, AtMostMaxRunsAreSubmitted) {
  core::Job job = minutely_;
  job.max_runs = 1;
  job.catch_up = {CatchUp::Kind::kAll, 5};
  Start({job});
  now_.wall += absl::Minutes(3);
  Start({job});
  ASSERT_EQ(requests_.size(), 1u);
  Accept();
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1", "00:02:00 missed_window",
                                       "00:03:00 missed_window"));
}

TEST_F(EngineTest, OpenAttemptsEndWhenMaxRunsIsLowered) {
  core::Job job = minutely_;
  job.catch_up = {CatchUp::Kind::kAll, 5};
  Start({job});
  Advance(absl::Minutes(1));
  Accept();
  now_.wall += absl::Minutes(2);
  Turn();
  ASSERT_EQ(requests_.size(), 1u);
  job.max_runs = 1;
  Start({job});
  AdvanceToLookup();
  Answer(Unused());
  AdvanceToLookup();
  Answer(Unused());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1", "00:02:00 missed_window",
                                       "00:03:00 missed_window"));
}

TEST_F(EngineTest, RowsOfAJobAreBounded) {
  core::Job job = CronJob("job", "* * * * * *");
  job.catch_up = {CatchUp::Kind::kNone};
  Start({job});
  for (int i = 0; i < 15; ++i) {
    Advance(absl::Seconds(1000));
    AcceptAll();
    EXPECT_LT(disk_.rows().at("job").size(), kRowsPerJobMax + kRowsTrimmedPerBatch);
    EXPECT_EQ(disk_.rows().at("job").size(), State("job").rows);
  }
  EXPECT_GE(disk_.rows().at("job").size(), kRowsPerJobMax);
}

TEST_F(EngineTest, OneTurnWritesABoundedNumberOfRows) {
  std::vector<core::Job> jobs;
  for (int i = 0; i < 30; ++i) {
    jobs.push_back(CronJob(absl::StrCat("job-", i), "* * * * * *"));
    jobs.back().catch_up = {CatchUp::Kind::kNone};
  }
  Start(jobs);
  now_.wall += absl::Hours(1);
  engine_->FireTimers(now_);
  EXPECT_LT(engine_->TakeOutcome(now_).changes.size(), 2 * kTurnChangesMax);
  EXPECT_EQ(engine_->TimeUntilNextTimer(now_), absl::ZeroDuration());
}

TEST_F(EngineTest, RareJobCostsNothing) {
  Start({CronJob("job", "0 0 29 2 *")});
  EXPECT_EQ(engine_->TimeUntilNextTimer(now_), absl::Seconds(1));
  EXPECT_EQ(View("job").next.size(), 10u);
}

TEST_F(EngineTest, StatusReportsTheOldestUndecidedOccurrence) {
  Start({minutely_, CronJob("later", "0 5 * * *")});
  EXPECT_EQ(engine_->Status(now_).overdue, absl::ZeroDuration());
  EXPECT_EQ(engine_->Status(now_).next_fire_at, At("2026-01-05 00:01:00"));
  Advance(absl::Seconds(30));
  Answer(NoAnswer());
  Advance(absl::Seconds(20));
  EXPECT_EQ(engine_->Status(now_).overdue, absl::Seconds(20));
  EXPECT_FALSE(engine_->Status(now_).director_reachable);
  EXPECT_EQ(engine_->Status(now_).jobs, 2u);
  EXPECT_EQ(engine_->Status(now_).open, 1u);
}

TEST_F(EngineTest, JobsAreListedByNamePageByPage) {
  Start({CronJob("c", "* * * * *"), CronJob("a", "* * * * *"), CronJob("b", "* * * * *")});
  EXPECT_EQ(engine_->ListJobs("", 2, now_)[1].job.name, "b");
  EXPECT_EQ(engine_->ListJobs("b", 2, now_).at(0).job.name, "c");
  EXPECT_THAT(engine_->GetJob("d", 1, now_), test::HasReason("JOB_NOT_FOUND"));
}

}  // namespace
}  // namespace callboard::scheduler
