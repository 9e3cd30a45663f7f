// Tests of many simultaneous jobs with the real rules of the director.
#include "libs/scheduler/engine.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/scheduler_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::scheduler {
namespace {

using core::FiringOutcome;
using test::CronJob;
using test::IsOk;

class ManyJobsTest : public test::SchedulerFixture {
 protected:
  void SubmitToDirector() {
    while (!requests_.empty()) {
      const director::Decision decision =
          director_.Submit(test::ReadSubmit(NextSubmit()), "scheduler");
      const auto* submitted = std::get_if<director::SubmitResult>(&decision);
      Answer(submitted == nullptr
                 ? absl::StatusOr<AcceptedTask>(test::EngineFixture::ErrorOf(decision))
                 : AcceptedTask{ToString(submitted->queue_id), submitted->deduplicated});
    }
  }
  size_t Count(FiringOutcome outcome) const {
    size_t count = 0;
    for (const auto& [job, rows] : disk_.rows()) {
      for (const auto& [nominal, row] : rows) count += row.outcome == outcome ? 1 : 0;
    }
    return count;
  }

  // A director with 50 places and without agents.
  test::EngineFixture director_;
};

TEST_F(ManyJobsTest, ThousandJobsFillOnlyTheSchedulersShare) {
  std::vector<core::Job> jobs;
  for (int i = 0; i < 1000; ++i) jobs.push_back(CronJob(absl::StrCat("job-", i), "* * * * *"));
  Start(jobs);
  Advance(absl::Seconds(30));
  SubmitToDirector();
  EXPECT_EQ(Count(FiringOutcome::kFired), 40u);
  EXPECT_EQ(Count(FiringOutcome::kSkippedQueueFull), 960u);
  EXPECT_EQ(disk_.rows().size(), 1000u);
  EXPECT_THAT(director_.TrySubmit(test::EngineFixture::Prompt()), IsOk());
}

TEST_F(ManyJobsTest, SecondSchedulerFindsTheTasksOfTheFirst) {
  std::vector<core::Job> jobs;
  for (int i = 0; i < 30; ++i) jobs.push_back(CronJob(absl::StrCat("job-", i), "* * * * *"));
  Start(jobs);
  Advance(absl::Seconds(30));
  SubmitToDirector();
  const test::MemoryLedgers::Rows first = disk_.rows();
  // A second scheduler with its own ledger, started at the same time.
  for (const core::Job& job : jobs) disk_.Write(JobForgotten{job.name});
  now_.wall -= absl::Seconds(30);
  Start(jobs);
  Advance(absl::Seconds(30));
  SubmitToDirector();
  EXPECT_EQ(disk_.rows(), first);
  EXPECT_EQ(director_.PendingTasks().size(), 30u);
}

}  // namespace
}  // namespace callboard::scheduler
