// Tasks and rows of a scheduler's jobs, and changes of its jobs file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "tests/integration/cron_fixture.h"

namespace callboard {
namespace {

using test::GaplessSecondlyJob;
using test::IsOk;
using test::OutcomeOf;
using test::RareJob;
using test::RunToEnd;
using test::SecondlyJob;
using test::ServerCommand;
using test::TimeText;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

class SchedulerTest : public test::CronFixture {
 protected:
  void WaitForError(const std::string& error) {
    WaitUntil([&] { return absl::StrContains(scheduler_->Status().jobs_file_error(), error); });
  }
};

TEST_F(SchedulerTest, EverySecondHasOneRowAndOneTask) {
  StartDirector();
  WriteJobs({GaplessSecondlyJob("tick")});
  StartScheduler();
  WaitForRows("tick", 3, "fired");
  const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
  const std::map<std::string, v1::Task> tasks = CronTasks();
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].nominal_at().seconds(),
              rows[0].nominal_at().seconds() + static_cast<int64_t>(i));
    EXPECT_EQ(OutcomeOf(rows[i]), "fired");
    const std::string id = absl::StrCat("cron/tick/", rows[i].nominal_at().seconds());
    EXPECT_EQ(rows[i].request_id(), id);
    ASSERT_TRUE(tasks.contains(id)) << id;
    EXPECT_EQ(tasks.at(id).queue_id(), rows[i].queue_id());
    EXPECT_EQ(tasks.at(id).source(), "scheduler");
    EXPECT_EQ(tasks.at(id).source_job(), "tick");
  }
}

TEST_F(SchedulerTest, JobShowsItsLastTaskAndItsNextTenOccurrences) {
  StartDirector();
  WriteJobs({GaplessSecondlyJob("tick")});
  StartScheduler();
  WaitForRows("tick", 1, "fired");
  const auto job = scheduler_->Get("tick");
  ASSERT_THAT(job, IsOk());
  EXPECT_EQ(job->last_status(), "queued");
  ASSERT_GE(job->last_firings_size(), 1);
  EXPECT_EQ(job->last_queue_id(), job->last_firings(0).queue_id());
  EXPECT_THAT(Get(job->last_queue_id()), IsOk());
  EXPECT_EQ(job->last_fire_at().seconds(), job->last_firings(0).nominal_at().seconds());
  ASSERT_EQ(job->next_fires_size(), 10);
  EXPECT_GT(job->next_fires(0).seconds(), job->last_fire_at().seconds());
  for (int i = 1; i < 10; ++i) {
    EXPECT_EQ(job->next_fires(i).seconds(), job->next_fires(0).seconds() + i);
  }
}

TEST_F(SchedulerTest, ThousandJobsFillOnlyTheSchedulersShare) {
  StartDirector({});
  WriteJobs({});
  StartScheduler();
  const absl::Time then = Soon();
  std::vector<std::string> jobs;
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(SecondlyJob(absl::StrCat("job-", i),
                               {absl::StrCat("start: '", TimeText(then), "'"),
                                absl::StrCat("end: '", TimeText(then + absl::Seconds(1)), "'")}));
  }
  DeclareFor(then, jobs);
  WaitUntil([&] { return scheduler_->Firings().size() == 1000; });
  EXPECT_EQ(CountRows("", "fired"), 40u);
  EXPECT_EQ(CountRows("", "skipped_queue_full"), 960u);
  EXPECT_EQ(CronTasks().size(), 40u);
  EXPECT_EQ(Status().depth(), 40u);
  const auto submitted = Submit(Prompt("another caller"));
  ASSERT_THAT(submitted, IsOk());
  EXPECT_EQ(submitted->position(), 41u);
}

// ---- The file -----------------------------------------------------------------------------------

TEST_F(SchedulerTest, ChangedFileIsLoaded) {
  StartDirector();
  WriteJobs({RareJob("old")});
  StartScheduler();
  WriteJobs({GaplessSecondlyJob("new")});
  WaitUntil([&] { return scheduler_->Get("new").ok(); });
  WaitForRows("new", 1, "fired");
  EXPECT_THAT(scheduler_->Get("old"), test::HasReason("JOB_NOT_FOUND"));
}

TEST_F(SchedulerTest, InvalidFileIsRejectedAndTheOldJobsContinue) {
  StartDirector();
  WriteJobs({GaplessSecondlyJob("tick")});
  StartScheduler();
  WriteFile(
      absl::StrCat("jobs:\n", GaplessSecondlyJob("tick"), "- {name: b, schedule: 75 * * * *}\n"));
  WaitForError(absl::StrCat(jobs_file_, ":3: job b: schedule: minute: 75 is not in 0-59"));
  const size_t before = CountRows("tick", "fired");
  WaitForRows("tick", before + 2, "fired");
  EXPECT_EQ(scheduler_->Status().jobs(), 1u);
  WriteJobs({GaplessSecondlyJob("tick"), RareJob("b")});
  WaitUntil([&] { return scheduler_->Status().jobs() == 2; });
  EXPECT_THAT(scheduler_->Status().jobs_file_error(), IsEmpty());
}

TEST_F(SchedulerTest, MissingFileIsLoadedWhenItReturns) {
  WriteJobs({RareJob("a")});
  StartScheduler();
  std::filesystem::rename(jobs_file_, jobs_file_ + ".gone");
  WaitForError("No such file or directory");
  EXPECT_EQ(scheduler_->Status().jobs(), 1u);
  std::filesystem::rename(jobs_file_ + ".gone", jobs_file_);
  WaitUntil([&] { return scheduler_->Status().jobs_file_error().empty(); });
}

TEST_F(SchedulerTest, SighupReloadsAnUnchangedFile) {
  WriteJobs({RareJob("a")});
  StartScheduler();
  for (int i = 0; i < 2; ++i) {
    server_->process().Signal(SIGHUP);
    EXPECT_THAT(server_->process().WaitForLine("jobs_file=read"), HasSubstr("jobs=1"));
  }
}

// ---- Starts that fail ---------------------------------------------------------------------------

TEST_F(SchedulerTest, InvalidOrMissingFileExitsWith2) {
  const test::ProcessResult missing = RunToEnd(ServerCommand(test::kScheduler, SchedulerFlags()));
  EXPECT_THAT(missing.exit_code, Optional(2));
  EXPECT_THAT(missing.output, HasSubstr(absl::StrCat("jobs_file: cannot read ", jobs_file_)));
  WriteFile("jobs:\n- {name: a, schedule: '@daily'}\n");
  const test::ProcessResult wrong = RunToEnd(ServerCommand(test::kScheduler, SchedulerFlags()));
  EXPECT_THAT(wrong.exit_code, Optional(2));
  EXPECT_THAT(wrong.output, HasSubstr(absl::StrCat(jobs_file_, ":2: job a: prompt is required")));
}

TEST_F(SchedulerTest, SecondSchedulerOnALedgerExits) {
  WriteJobs({RareJob("a")});
  StartScheduler();
  const test::ProcessResult second = RunToEnd(ServerCommand(test::kScheduler, SchedulerFlags()));
  EXPECT_THAT(second.exit_code, Optional(75));
  EXPECT_THAT(second.output, HasSubstr(ledger_.string()));
  EXPECT_THAT(scheduler_->Get("a"), IsOk());
}

}  // namespace
}  // namespace callboard
