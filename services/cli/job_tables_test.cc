#include "services/cli/job_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kMarch29 = 1774742400;  // 2026-03-29 in UTC.
constexpr int64_t kHour = 3600;

v1::Job Nightly() {
  v1::Job job;
  job.set_name("nightly");
  job.add_schedules("30 2 * * *");
  job.set_time_zone("Europe/Berlin");
  job.set_overlap(v1::Overlap::POLICY_SKIP);
  job.set_catch_up(v1::Job::CATCH_UP_LATEST);
  job.mutable_task()->set_prompt("tidy\nup");
  job.add_next_fires()->set_seconds(kMarch29 + kHour);
  return job;
}

v1::PreviewJobResponse::Occurrence& AddOccurrence(int64_t at, const std::string& wall_time,
                                                  v1::Firing::Outcome mark,
                                                  v1::PreviewJobResponse& response) {
  v1::PreviewJobResponse::Occurrence& occurrence = *response.add_occurrences();
  occurrence.mutable_at()->set_seconds(at);
  occurrence.set_wall_time(wall_time);
  occurrence.set_mark(mark);
  return occurrence;
}

TEST(JobTablesTest, JobsTableHasStateLastStatusAndNextTime) {
  v1::ListJobsResponse jobs;
  EXPECT_EQ(JobsTable(jobs), "no jobs\n");
  *jobs.add_jobs() = Nightly();
  v1::Job& paused = *jobs.add_jobs();
  paused.set_name("report");
  paused.add_schedules("@hourly");
  paused.add_schedules("30 12 * * SUN");
  paused.set_paused(true);
  paused.set_last_status("skipped_queue_full");
  EXPECT_EQ(JobsTable(jobs),
            "NAME     SCHEDULE                TIME ZONE      STATE   LAST                NEXT\n"
            "nightly  30 2 * * *              Europe/Berlin  active  none                "
            "2026-03-29 01:00:00 UTC\n"
            "report   @hourly; 30 12 * * SUN  UTC            paused  skipped_queue_full  none\n");
  paused.mutable_paused_until()->set_seconds(kMarch29);
  EXPECT_THAT(JobsTable(jobs), HasSubstr("paused until 2026-03-29 00:00:00 UTC"));
}

TEST(JobTablesTest, LastShowsHowTheLastRunEnded) {
  v1::ListJobsResponse jobs;
  v1::Job& job = *jobs.add_jobs() = Nightly();
  job.set_last_status("queued");
  job.set_last_queue_id("queue-2");
  EXPECT_THAT(JobsTable(jobs), HasSubstr(" queued "));
  job.set_last_run_state(v1::Task::STATE_FAILED);
  job.set_last_run_reason(v1::Task::REASON_EXEC_FAILED);
  EXPECT_THAT(JobsTable(jobs), HasSubstr(" failed (EXEC_FAILED) "));
  // The last run state now belongs to the run before.
  job.add_running_queue_ids("queue-2");
  EXPECT_THAT(JobsTable(jobs), HasSubstr(" queued "));
  EXPECT_THAT(JobTable(job), HasSubstr("live    queue-2\n"));
  job.set_last_status("skipped_overlap");
  EXPECT_THAT(JobsTable(jobs), HasSubstr(" skipped_overlap, run before: failed (EXEC_FAILED) "));
}

TEST(JobTablesTest, JobShowsItsSettingsAndTheirOrigins) {
  v1::Job job = Nightly();
  auto& origins = *job.mutable_origins();
  origins["schedule"] = "file";
  origins["on_queue_full"] = "default";
  origins["time_zone"] = "file";
  origins["overlap"] = "default";
  origins["paused"] = "operator";
  EXPECT_EQ(JobTable(job),
            "job     nightly\n"
            "state   active\n"
            "last    none\n"
            "live    none\n"
            "prompt  \"tidy\\nup\"\n"
            "\n"
            "SETTING               VALUE          FROM\n"
            "schedule              30 2 * * *     file\n"
            "seconds               false\n"
            "time_zone             Europe/Berlin  file\n"
            "overlap               skip           default\n"
            "catch_up              latest\n"
            "on_queue_full         skip           default\n"
            "jitter                none\n"
            "start                 none\n"
            "end                   none\n"
            "max_runs              none\n"
            "pause_after_failures  none\n"
            "agent_url             none\n"
            "paused                false          operator\n"
            "\n"
            "NEXT\n"
            "2026-03-29 01:00:00 UTC\n");
}

TEST(JobTablesTest, EverySettingIsShownAsInTheJobsFile) {
  v1::Job job = Nightly();
  job.set_seconds(true);
  job.clear_time_zone();
  job.set_overlap(v1::Overlap::POLICY_ALLOW);
  job.set_catch_up(v1::Job::CATCH_UP_ALL);
  job.set_catch_up_max(5);
  job.mutable_queue_full_wait()->set_seconds(300);
  job.mutable_jitter()->set_seconds(90);
  job.mutable_start()->set_seconds(kMarch29);
  job.mutable_end()->set_seconds(kMarch29 + kHour);
  job.set_max_runs(7);
  job.set_pause_after_failures(3);
  job.set_agent_url("grpc://127.0.0.1:7071");
  const std::string table = JobTable(job);
  for (const char* line :
       {"seconds               true\n", "time_zone             UTC\n",
        "overlap               allow\n", "catch_up              all: 5\n",
        "on_queue_full         wait: 5m\n", "jitter                1m30s\n",
        "start                 2026-03-29 00:00:00 UTC\n",
        "end                   2026-03-29 01:00:00 UTC\n", "max_runs              7\n",
        "pause_after_failures  3\n", "agent_url             grpc://127.0.0.1:7071\n"}) {
    EXPECT_THAT(table, HasSubstr(line));
  }
}

TEST(JobTablesTest, PauseShowsWhoWhyAndUntilWhen) {
  v1::Job job = Nightly();
  job.set_paused(true);
  EXPECT_EQ(PausedText(job), "nightly  paused until it is resumed\n");
  job.set_paused_by("anna");
  job.set_pause_why("the disk\nis full");
  job.mutable_paused_until()->set_seconds(kMarch29);
  EXPECT_EQ(PausedText(job),
            "nightly  paused by anna until 2026-03-29 00:00:00 UTC: the disk\\nis full\n");
  EXPECT_THAT(
      JobTable(job),
      HasSubstr("state   paused by anna until 2026-03-29 00:00:00 UTC: the disk\\nis full\n"));
}

TEST(JobTablesTest, LastOccurrencesShowOutcomeTaskAndDetail) {
  v1::Job job = Nightly();
  job.clear_next_fires();
  job.set_last_status("queued");
  job.set_last_queue_id("queue-1");
  job.mutable_last_fire_at()->set_seconds(kMarch29);
  v1::Firing& fired = *job.add_last_firings();
  fired.mutable_nominal_at()->set_seconds(kMarch29);
  fired.set_outcome(v1::Firing::OUTCOME_FIRED);
  fired.set_queue_id("queue-1");
  v1::Firing& skipped = *job.add_last_firings();
  skipped.mutable_nominal_at()->set_seconds(kMarch29 - kHour);
  skipped.set_outcome(v1::Firing::OUTCOME_COALESCED);
  skipped.set_detail("it was down");
  skipped.set_more_count(2);
  EXPECT_THAT(JobTable(job),
              AllOf(HasSubstr("last    queued, 2026-03-29 00:00:00 UTC, last task queue-1\n"),
                    HasSubstr("\nNEXT\n"
                              "none\n"
                              "\n"
                              "DUE                      OUTCOME    TASK     DETAIL\n"
                              "2026-03-29 00:00:00 UTC  fired      queue-1\n"
                              "2026-03-28 23:00:00 UTC  coalesced  -        "
                              "it was down; also for 2 occurrences before it\n")));
}

TEST(JobTablesTest, ResumedJobShowsSkippedAndNextOccurrences) {
  v1::ResumeJobResponse response;
  *response.mutable_job() = Nightly();
  EXPECT_EQ(ResumedText(response),
            "nightly  active, next: 2026-03-29 01:00:00 UTC\n"
            "no occurrence was due during the pause\n");
  response.set_skipped_count(1);
  EXPECT_THAT(ResumedText(response),
              HasSubstr("\n1 occurrence was due during the pause and will not run\n"));
  response.set_skipped_count(3);
  response.mutable_job()->clear_next_fires();
  EXPECT_EQ(ResumedText(response),
            "nightly  active, next: none\n"
            "3 occurrences were due during the pause and will not run\n");
}

TEST(JobTablesTest, PreviewExplainsEffectsOfTheTimeZone) {
  v1::PreviewJobRequest request;
  request.set_limit(10);
  v1::PreviewJobResponse response;
  EXPECT_EQ(PreviewTable(request, response), "no occurrences\n");
  AddOccurrence(kMarch29 - 23 * kHour + kHour / 2, "2026-03-28T02:30:00+01:00",
                v1::Firing::OUTCOME_FIRED, response);
  AddOccurrence(kMarch29 + kHour, "2026-03-29T03:00:00+02:00", v1::Firing::OUTCOME_DST_GAP_MOVED,
                response);
  for (auto& occurrence : *response.mutable_occurrences()) {
    occurrence.set_asked_wall_time("2026-03-29T02:30:00");
  }
  EXPECT_EQ(PreviewTable(request, response),
            "UTC TIME                 WALL TIME                  NOTE\n"
            "2026-03-28 01:30:00 UTC  2026-03-28T02:30:00+01:00\n"
            "2026-03-29 01:00:00 UTC  2026-03-29T03:00:00+02:00  "
            "moved: 2026-03-29 02:30:00 does not exist\n");
  response.mutable_occurrences(1)->set_merged_count(2);
  EXPECT_THAT(PreviewTable(request, response), HasSubstr(" does not exist, nor do 2 more\n"));
  AddOccurrence(0, "", v1::Firing::OUTCOME_DST_FOLD_SUPPRESSED, response);
  AddOccurrence(0, "", v1::Firing::OUTCOME_SKIPPED_CALENDAR, response);
  AddOccurrence(0, "", static_cast<v1::Firing::Outcome>(99), response);
  for (auto& occurrence : *response.mutable_occurrences()) {
    occurrence.set_asked_wall_time("2011-12-30T10:00:00");
  }
  EXPECT_THAT(PreviewTable(request, response),
              AllOf(HasSubstr("suppressed: 2011-12-30 10:00:00 happens a second time\n"),
                    HasSubstr("skipped: the calendar leaves out 2011-12-30 10:00:00\n"),
                    HasSubstr(" 99\n")));
}

TEST(JobTablesTest, PreviewAtItsLimitShowsHowToContinue) {
  v1::PreviewJobRequest request;
  request.set_limit(2);
  v1::PreviewJobResponse response;
  AddOccurrence(kMarch29, "", v1::Firing::OUTCOME_FIRED, response);
  EXPECT_THAT(PreviewTable(request, response), Not(HasSubstr("--limit")));
  AddOccurrence(kMarch29 + kHour, "", v1::Firing::OUTCOME_FIRED, response);
  EXPECT_THAT(PreviewTable(request, response),
              HasSubstr("\n2 shown (--limit); for later ones: --from=2026-03-29T01:00:01Z\n"));
}

TEST(JobTablesTest, BackfillShowsCountRateAndHowToRetry) {
  v1::BackfillJobRequest request;
  v1::BackfillJobResponse response;
  response.set_backfill_id("b1");
  EXPECT_THAT(BackfillText(request, response), StartsWith("no occurrences"));
  response.add_occurrences()->set_seconds(kMarch29);
  response.add_occurrences()->set_seconds(kMarch29 + kHour);
  EXPECT_EQ(BackfillText(request, response),
            "backfill b1  2 occurrences, one per second, "
            "2026-03-29 00:00:00 UTC to 2026-03-29 01:00:00 UTC\n"
            "to repeat it without running any twice: --backfill_id=b1\n");
}

TEST(JobTablesTest, DryRunListsTheOccurrences) {
  v1::BackfillJobRequest request;
  request.set_dry_run(true);
  v1::BackfillJobResponse response;
  response.add_occurrences()->set_seconds(kMarch29);
  EXPECT_EQ(BackfillText(request, response),
            "2026-03-29 00:00:00 UTC\n"
            "1 occurrence; leave out --dry_run to run, one per second\n");
}

}  // namespace
}  // namespace callboard::cli
