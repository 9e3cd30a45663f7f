#include "libs/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
using test::MemoryLedgers;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SchedulerTest : public testing::Test, public Observer {
 protected:
  SchedulerTest()
      : scheduler_({clock_, ledgers_, director_, this},
                   [this](Command command) { posted_.push_back(std::move(command)); }) {}

  void Start() {
    ASSERT_THAT(scheduler_.Open(), IsOk());
    scheduler_.SetJobs({CronJob("job", "* * * * *")});
    RunTurn();
  }
  // Runs a turn with the answers that the director has given.
  void RunTurn() { scheduler_.RunTurn(std::exchange(posted_, {})); }
  void Advance(absl::Duration elapsed) {
    clock_.Advance(elapsed);
    RunTurn();
  }
  void Trigger(absl::StatusOr<AcceptedTask>& answer) {
    posted_.push_back(scheduler_.MakeTriggerCommand(
        {.job = "job", .id = "t"},
        [&answer](absl::StatusOr<AcceptedTask> reply) { answer = std::move(reply); }));
    RunTurn();
  }
  std::vector<core::FiringOutcome> Outcomes() const {
    std::vector<core::FiringOutcome> outcomes;
    const auto rows = ledgers_.rows().find("job");
    if (rows == ledgers_.rows().end()) return outcomes;
    for (const auto& [nominal, row] : rows->second) outcomes.push_back(row.outcome);
    return outcomes;
  }

  void OnService(const absl::Status& why) override {
    service_.push_back(why.ok() ? "up" : std::string(why.message()));
  }
  void OnCommit(absl::Span<const LedgerChange>, absl::Duration) override { ++commits_; }
  void OnNotice(const Notice&) override {}
  void OnStatus(const StatusView& status) override { statuses_.push_back(status); }

  test::FakeClock clock_;
  MemoryLedgers::CommitResult fate_;
  MemoryLedgers ledgers_{[this](absl::Span<const LedgerChange>) { return fate_; }};
  test::FakeDirectorLink director_;
  std::vector<Command> posted_;
  std::vector<std::string> service_;
  std::vector<StatusView> statuses_;
  int commits_ = 0;
  Scheduler scheduler_;
};

TEST_F(SchedulerTest, NothingIsSentBeforeTheCommit) {
  Start();
  fate_ = {absl::UnavailableError("disk"), /*written=*/false};
  Advance(absl::Minutes(1));
  EXPECT_EQ(director_.size(), 0u);
  EXPECT_THAT(ledgers_.contents().intents, IsEmpty());
  fate_ = {};
  RunTurn();
  EXPECT_EQ(director_.size(), 1u);
  EXPECT_EQ(ledgers_.contents().intents.size(), 1u);
}

TEST_F(SchedulerTest, StatusIsReportedOncePerSecond) {
  Start();
  RunTurn();
  ASSERT_EQ(statuses_.size(), 1u);
  const absl::Time first = test::At("2023-11-14 22:14:00");
  EXPECT_EQ(statuses_[0].oldest_due, first);
  EXPECT_EQ(statuses_[0].overdue, absl::ZeroDuration());
  Advance(absl::Minutes(1));
  ASSERT_EQ(statuses_.size(), 2u);
  // The director has not answered yet.
  EXPECT_EQ(statuses_[1].oldest_due, first);
  EXPECT_EQ(statuses_[1].overdue, clock_.WallNow() - first);
}

TEST_F(SchedulerTest, StatusAfterTheLastTurnIsReported) {
  core::Job once = CronJob("job", "* * * * *");
  once.max_runs = 1;
  ASSERT_THAT(scheduler_.Open(), IsOk());
  scheduler_.SetJobs({once});
  RunTurn();
  Advance(absl::Minutes(1));
  director_.Take().reply(AcceptedTask{"queue-1"});
  RunTurn();
  for (int i = 0; i < 5 && scheduler_.UntilNextTurn() < absl::Hours(1); ++i) {
    Advance(scheduler_.UntilNextTurn());
  }
  EXPECT_EQ(statuses_.back().oldest_due, absl::InfiniteFuture());
}

TEST_F(SchedulerTest, FailedCommitIsARestart) {
  Start();
  Advance(absl::Minutes(1));
  const auto first = director_.Take();
  // This is the commit of the row. The row is stored although the commit failed.
  fate_ = {absl::UnavailableError("disk"), /*written=*/true};
  first.reply(AcceptedTask{"queue-1"});
  RunTurn();
  EXPECT_THAT(service_, ElementsAre("up", "disk", "up"));
  fate_ = {};
  RunTurn();
  EXPECT_EQ(director_.size(), 0u);
  EXPECT_THAT(Outcomes(), ElementsAre(core::FiringOutcome::kFired));
}

TEST_F(SchedulerTest, LostRowIsRestoredByItsRequestId) {
  Start();
  Advance(absl::Minutes(1));
  const auto first = director_.Take();
  fate_ = {absl::UnavailableError("disk"), /*written=*/false};
  first.reply(AcceptedTask{"queue-1"});
  RunTurn();
  fate_ = {};
  RunTurn();
  const auto again = director_.Take();
  EXPECT_EQ(again.submission.request_id, first.submission.request_id);
  EXPECT_EQ(*again.submission.task, *first.submission.task);
  again.reply(AcceptedTask{"queue-1", /*deduplicated=*/true});
  // An answer to a request of the earlier engine is ignored.
  first.reply(absl::InvalidArgumentError("late"));
  RunTurn();
  EXPECT_THAT(Outcomes(), ElementsAre(core::FiringOutcome::kFired));
}

TEST_F(SchedulerTest, OpeningTheLedgerIsRetriedEverySecond) {
  Start();
  ledgers_.FailToOpen(absl::UnavailableError("gone"));
  fate_ = {absl::UnavailableError("disk"), /*written=*/false};
  Advance(absl::Minutes(1));
  fate_ = {};
  EXPECT_EQ(scheduler_.engine(), nullptr);
  EXPECT_EQ(scheduler_.ledger(), nullptr);
  EXPECT_EQ(scheduler_.UntilNextTurn(), absl::Seconds(1));
  absl::StatusOr<AcceptedTask> answer;
  Trigger(answer);
  EXPECT_THAT(answer, HasReason("STORE_UNAVAILABLE"));
  ledgers_.FailToOpen(absl::OkStatus());
  Advance(absl::Seconds(1));
  EXPECT_EQ(director_.size(), 1u);
  EXPECT_THAT(service_, ElementsAre("up", "disk", "gone", "up"));
}

TEST_F(SchedulerTest, DamagedLedgerIsNotOpened) {
  ledgers_.FailToOpen(absl::DataLossError("damaged"));
  EXPECT_THAT(scheduler_.Open(), test::StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SchedulerTest, TriggerIsAnsweredAfterTheDirectorAnswers) {
  Start();
  absl::StatusOr<AcceptedTask> answer;
  Trigger(answer);
  const auto submit = director_.Take();
  EXPECT_EQ(submit.submission.request_id, "trigger/job/t");
  submit.reply(AcceptedTask{"queue-1"});
  RunTurn();
  ASSERT_THAT(answer, IsOk());
  EXPECT_EQ(answer->queue_id, "queue-1");
}

TEST_F(SchedulerTest, TriggerGetsOutcomeUnknownWhenTheLedgerFails) {
  Start();
  absl::StatusOr<AcceptedTask> answer;
  Trigger(answer);
  fate_ = {absl::UnavailableError("disk"), /*written=*/false};
  Advance(absl::Minutes(1));
  EXPECT_THAT(answer, HasReason("OUTCOME_UNKNOWN"));
}

TEST_F(SchedulerTest, JobsDueTogetherTakeTwoCommits) {
  ASSERT_THAT(scheduler_.Open(), IsOk());
  std::vector<core::Job> jobs;
  for (int i = 0; i < 200; ++i) jobs.push_back(CronJob(std::to_string(i), "* * * * *"));
  scheduler_.SetJobs(jobs);
  RunTurn();
  commits_ = 0;
  Advance(absl::Minutes(1));
  EXPECT_EQ(commits_, 1);
  ASSERT_EQ(director_.size(), 200u);
  for (int i = 0; i < 200; ++i) director_.Take().reply(AcceptedTask{"queue"});
  RunTurn();
  EXPECT_EQ(commits_, 2);
  EXPECT_EQ(ledgers_.rows().size(), 200u);
}

}  // namespace
}  // namespace callboard::scheduler
