#include "libs/scheduler/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/testing/cron_jobs.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_ledger.h"
#include "libs/testing/scheduler_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::scheduler {
namespace {

using test::CronJob;
using test::HasReason;
using test::IsOk;
using ::testing::SizeIs;

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    auto driver = SchedulerDriver::Open({clock_, ledgers_, director_});
    CHECK_OK(driver.status());
    driver_ = *std::move(driver);
    driver_->SetJobs({CronJob("job", "* * * * *")});
    CHECK_EQ(Answer<StatusView>([this](auto reply) { driver_->GetStatus(reply); })->jobs, 1u);
  }

  // Returns the answer to the call.
  template <class T, class CallDriver>
  absl::StatusOr<T> Answer(CallDriver call) {
    auto promise = std::make_shared<std::promise<absl::StatusOr<T>>>();
    std::future<absl::StatusOr<T>> answer = promise->get_future();
    call(DirectorLink::Reply<T>(
        [promise](absl::StatusOr<T> reply) { promise->set_value(std::move(reply)); }));
    return answer.get();
  }
  // Advances the clock by a minute and makes the driver run a turn.
  void PassAMinute() {
    clock_.Advance(absl::Minutes(1));
    EXPECT_THAT(Answer<StatusView>([this](auto reply) { driver_->GetStatus(reply); }), IsOk());
  }
  absl::StatusOr<JobDetail> Get(const std::string& name) {
    return Answer<JobDetail>([&](auto reply) { driver_->GetJob(name, reply); });
  }

  test::FakeClock clock_;
  test::MemoryLedgers ledgers_;
  test::FakeDirectorLink director_;
  std::unique_ptr<SchedulerDriver> driver_;
};

TEST_F(DriverTest, OccurrenceIsSubmittedAndShown) {
  PassAMinute();
  director_.Take().reply(AcceptedTask{"queue-1"});
  const auto detail = Get("job");
  ASSERT_THAT(detail, IsOk());
  EXPECT_THAT(detail->view.next, SizeIs(SchedulerDriver::kOccurrencesShownMax));
  ASSERT_THAT(detail->last_firings, SizeIs(1));
  EXPECT_EQ(detail->last_firings[0].queue_id, "queue-1");
  EXPECT_EQ(detail->view.state.last_queue_id, "queue-1");
  const auto page =
      Answer<FiringPage>([this](auto reply) { driver_->ListFirings({.job = "job"}, reply); });
  EXPECT_THAT(page->firings, SizeIs(1));
}

TEST_F(DriverTest, CallsAreAnswered) {
  EXPECT_THAT(Get("unknown"), HasReason("JOB_NOT_FOUND"));
  const auto paused = Answer<JobView>(
      [this](auto reply) { driver_->PauseJob("job", {.by = "ann", .why = "why"}, reply); });
  EXPECT_EQ(paused->state.pause->by, "ann");
  PassAMinute();
  const auto resumed =
      Answer<ResumeResult>([this](auto reply) { driver_->ResumeJob("job", reply); });
  EXPECT_EQ(resumed->skipped, 1u);
  const auto preview = Answer<Preview>([this](auto reply) {
    driver_->PreviewJob({.job = "job", .from = clock_.WallNow(), .limit = 3}, reply);
  });
  EXPECT_EQ(preview->time_zone, "UTC");
  EXPECT_THAT(preview->occurrences, SizeIs(3));
  EXPECT_THAT(
      Answer<FiringPage>([this](auto reply) { driver_->ListFirings({.job = "unknown"}, reply); }),
      HasReason("JOB_NOT_FOUND"));
  const auto backfill = Answer<Backfill>([this](auto reply) {
    driver_->StartBackfill({.job = "job",
                            .id = "b",
                            .from = clock_.WallNow() - absl::Hours(1),
                            .until = clock_.WallNow() - absl::Minutes(50),
                            .dry_run = true},
                           reply);
  });
  EXPECT_THAT(backfill->occurrences, SizeIs(10));
  EXPECT_THAT(Answer<JobPage>([this](auto reply) { driver_->ListJobs("", 10, reply); })->jobs,
              SizeIs(1));
}

TEST_F(DriverTest, TriggerIsAnsweredByTheDirector) {
  std::promise<absl::StatusOr<AcceptedTask>> answer;
  driver_->Trigger({.job = "job", .id = "t"},
                   [&answer](absl::StatusOr<AcceptedTask> reply) { answer.set_value(reply); });
  director_.Take().reply(AcceptedTask{"queue-1"});
  EXPECT_EQ(answer.get_future().get()->queue_id, "queue-1");
}

TEST_F(DriverTest, CallsBeyondTheLimitAreRejected) {
  std::promise<void> begun;
  std::promise<void> go_on;
  driver_->GetStatus([&](const absl::StatusOr<StatusView>&) {
    begun.set_value();
    go_on.get_future().wait();
  });
  begun.get_future().wait();
  std::atomic<size_t> answered = 0;
  for (size_t i = 0; i < SchedulerDriver::kCommandsWaitingMax; ++i) {
    driver_->GetStatus([&answered](const absl::StatusOr<StatusView>&) { ++answered; });
  }
  absl::Status error;
  driver_->GetStatus([&error](const absl::StatusOr<StatusView>& reply) { error = reply.status(); });
  EXPECT_THAT(error, HasReason("OVERLOADED"));
  go_on.set_value();
  driver_.reset();
  EXPECT_EQ(answered, SchedulerDriver::kCommandsWaitingMax);
}

TEST_F(DriverTest, AnswerAfterDestructionIsIgnored) {
  PassAMinute();
  const auto submit = director_.Take();
  driver_.reset();
  submit.reply(AcceptedTask{"queue-1"});
  EXPECT_EQ(ledgers_.contents().intents.size(), 1u);
}

TEST(SchedulerDriverTest, OpenReturnsTheErrorOfTheLedger) {
  test::FakeClock clock;
  test::MemoryLedgers ledgers;
  test::FakeDirectorLink director;
  ledgers.FailToOpen(absl::DataLossError("damaged"));
  EXPECT_THAT(SchedulerDriver::Open({clock, ledgers, director}),
              test::StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace callboard::scheduler
