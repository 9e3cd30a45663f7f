// The contract of every ledger, as a test suite to instantiate for each implementation:
//
//   struct MemoryHarness {
//     scheduler::LedgerOpener& ledgers();  // The same ledger for as long as the harness lives.
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Memory, LedgerContractTest, MemoryHarness);
#ifndef CALLBOARD_LIBS_TESTING_LEDGER_CONTRACT_H_
#define CALLBOARD_LIBS_TESTING_LEDGER_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/scheduler/ledger.h"
#include "libs/testing/cron_jobs.h"
#include "libs/testing/status_matchers.h"

namespace callboard::test {

template <class Harness>
class LedgerContractTest : public testing::Test {
 protected:
  void Reopen() {
    ledger_.reset();
    auto ledger = harness_.ledgers().Open();
    ASSERT_THAT(ledger, IsOk());
    ledger_ = *std::move(ledger);
  }
  void SetUp() override { Reopen(); }

  void Commit(const std::vector<scheduler::LedgerChange>& batch) {
    ASSERT_THAT(ledger_->Commit(batch), IsOk());
  }
  scheduler::LedgerContents Loaded() {
    const absl::StatusOr<scheduler::LedgerContents> loaded = ledger_->Load();
    EXPECT_THAT(loaded, IsOk());
    return loaded.value_or(scheduler::LedgerContents());
  }
  // Returns all listed rows as "job 7", page after page.
  std::vector<std::string> Listed(scheduler::FiringQuery query) {
    std::vector<std::string> texts;
    while (true) {
      const absl::StatusOr<scheduler::FiringPage> page = ledger_->ListFirings(query);
      EXPECT_THAT(page, IsOk());
      if (!page.ok()) return texts;
      EXPECT_LE(page->firings.size(), query.page_size);
      for (const core::Firing& row : page->firings) {
        texts.push_back(absl::StrCat(row.job, " ", absl::ToUnixSeconds(row.nominal),
                                     row.trigger.empty() ? "" : " ", row.trigger));
      }
      if (!page->next.has_value()) return texts;
      query.after = page->next;
    }
  }

  static absl::Time Second(int64_t second) { return absl::FromUnixSeconds(second); }
  static core::Firing Row(const std::string& job, int64_t nominal,
                          core::FiringOutcome outcome = core::FiringOutcome::kFired) {
    return {.job = job, .nominal = Second(nominal), .outcome = outcome};
  }
  static core::Firing FullRow() {
    return {.job = "job",
            .nominal = Second(-5),
            .outcome = core::FiringOutcome::kRejected,
            .decided_at = absl::FromUnixMicros(1'700'000'000'123'456),
            .queue_id = "queue-1",
            .request_id = "cron/job/-5",
            .detail = "why",
            .more = uint64_t{1} << 40};
  }
  static scheduler::JobState FullState() {
    return {.job = "job",
            .cursor = absl::FromUnixMicros(1'700'000'000'123'456),
            .pause = scheduler::Pause{"ann", "why", Second(1), Second(2), 3},
            .paused_in_file = true,
            .runs = 4,
            .finished = true,
            .failures_in_row = 5,
            .tracked_tasks = {"queue-1", "queue-2"},
            .triggered_tasks = {"queue-0", "queue-2"},
            .open_triggers = {"t1", "t2"},
            .last_run_state = core::LifecycleState::kFailed,
            .last_run_reason = core::FailureReason::kTimedOut,
            .last_outcome = core::FiringOutcome::kFired,
            .last_nominal = Second(6),
            .last_queue_id = "queue-3",
            .rows = 7,
            .removed_at = Second(8)};
  }
  static scheduler::Backfill FullBackfill() {
    return {.id = "b",
            .job = "job",
            .by = "ann",
            .from = Second(1),
            .until = Second(2),
            .occurrences = {Second(1), Second(-1)},
            .done = 1,
            .began_at = Second(3),
            .ended_at = Second(4)};
  }

  Harness harness_;
  std::unique_ptr<scheduler::Ledger> ledger_;
};

TYPED_TEST_SUITE_P(LedgerContractTest);

TYPED_TEST_P(LedgerContractTest, NewLedgerIsEmpty) {
  EXPECT_EQ(this->Loaded(), scheduler::LedgerContents());
  EXPECT_THAT(this->Listed({}), testing::IsEmpty());
}

TYPED_TEST_P(LedgerContractTest, EveryFieldOfEverythingSurvivesReopening) {
  const scheduler::JobState plain = {.job = "plain", .cursor = this->Second(1)};
  const scheduler::JobState paused = {
      .job = "paused", .cursor = this->Second(1), .pause = scheduler::Pause{"ann"}};
  const scheduler::Intent intent = {"job", this->Second(9), true, true};
  const scheduler::Backfill active = {.id = "active", .job = "job"};
  this->Commit(
      {this->FullRow(), this->FullState(), plain, paused, intent, this->FullBackfill(), active});
  this->Reopen();
  EXPECT_EQ(this->Loaded(), (scheduler::LedgerContents{
                                {{"job", this->FullState()}, {"paused", paused}, {"plain", plain}},
                                {{{"job", this->Second(9)}, intent}},
                                {{"b", this->FullBackfill()}, {"active", active}}}));
  EXPECT_EQ(this->ledger_->ListFirings({})->firings, std::vector{this->FullRow()});
}

TYPED_TEST_P(LedgerContractTest, LaterChangesReplaceEarlierOnes) {
  this->Commit({this->Row("job", 1), this->FullState(), scheduler::Intent{"job", this->Second(1)}});
  const core::Firing later = this->Row("job", 1, core::FiringOutcome::kPaused);
  const scheduler::JobState state = {.job = "job", .cursor = this->Second(2)};
  this->Commit({later, state, scheduler::IntentResolved{"job", this->Second(1)}});
  this->Reopen();
  EXPECT_EQ(this->Loaded(), (scheduler::LedgerContents{{{"job", state}}, {}, {}}));
  EXPECT_EQ(this->ledger_->ListFirings({})->firings, std::vector{later});
}

TYPED_TEST_P(LedgerContractTest, OneBatchMayWriteAndForgetTheSameThing) {
  this->Commit({scheduler::Intent{"job", this->Second(1)},
                scheduler::IntentResolved{"job", this->Second(1)}, this->FullBackfill(),
                scheduler::BackfillForgotten{"b"}, this->FullState(), this->Row("job", 1),
                scheduler::JobForgotten{"job"}});
  this->Reopen();
  EXPECT_EQ(this->Loaded(), scheduler::LedgerContents());
  EXPECT_THAT(this->Listed({}), testing::IsEmpty());
}

TYPED_TEST_P(LedgerContractTest, RowsAreListedNewestFirstInPages) {
  for (int64_t i = -2; i <= 2; ++i) this->Commit({this->Row("b", i)});
  this->Commit({this->Row("a", 1), this->Row("ab", 1), this->Row("c", 1)});
  EXPECT_THAT(this->Listed({.job = "b", .page_size = 2}),
              testing::ElementsAre("b 2", "b 1", "b 0", "b -1", "b -2"));
  EXPECT_THAT(this->Listed({.job = "a"}), testing::ElementsAre("a 1"));
  EXPECT_THAT(this->Listed({.job = "unknown"}), testing::IsEmpty());
  for (const size_t page_size : {1, 3, 8, 50}) {
    EXPECT_THAT(this->Listed({.page_size = page_size}),
                testing::ElementsAre("b 2", "a 1", "ab 1", "b 1", "c 1", "b 0", "b -1", "b -2"))
        << page_size;
  }
}

TYPED_TEST_P(LedgerContractTest, TriggersHaveRowsNextToTheOccurrenceOfTheSameSecond) {
  core::Firing first = this->FullRow();
  first.trigger = "t1";
  core::Firing second = first;
  second.trigger = "t2";
  this->Commit({this->FullRow(), first, second, this->Row("a", -5), this->Row("z", -5),
                this->Row("job", -6), this->Row("job", -4)});
  this->Reopen();
  for (const size_t page_size : {1, 2, 3, 50}) {
    EXPECT_THAT(this->Listed({.page_size = page_size}),
                testing::ElementsAre("job -4", "a -5", "job -5 t2", "job -5 t1", "job -5", "z -5",
                                     "job -6"))
        << page_size;
  }
  EXPECT_EQ(this->ledger_->ListFirings({.job = "job"})->firings.at(2), first);
  this->Commit({scheduler::RowsTrimmed{"job", 3}});
  EXPECT_THAT(this->Listed({.job = "job"}), testing::ElementsAre("job -4", "job -5 t2"));
}

TYPED_TEST_P(LedgerContractTest, RowsCanBeFilteredByOutcome) {
  using Outcome = core::FiringOutcome;
  this->Commit({this->Row("job", 1, Outcome::kFired), this->Row("job", 2, Outcome::kPaused),
                this->Row("job", 3, Outcome::kRejected), this->Row("job", 4, Outcome::kFired)});
  EXPECT_THAT(this->Listed({.job = "job", .outcomes = {Outcome::kFired}, .page_size = 1}),
              testing::ElementsAre("job 4", "job 1"));
  EXPECT_THAT(this->Listed({.outcomes = {Outcome::kPaused, Outcome::kRejected}}),
              testing::ElementsAre("job 3", "job 2"));
}

TYPED_TEST_P(LedgerContractTest, TrimRemovesTheOldestRowsOfTheJob) {
  std::vector<scheduler::LedgerChange> rows;
  for (int64_t i = 1; i <= 9; ++i) rows.push_back(this->Row("job", i));
  rows.push_back(this->Row("other", 1));
  this->Commit(rows);
  this->Commit({scheduler::RowsTrimmed{"job", 2}, this->Row("job", 10),
                scheduler::RowsTrimmed{"job", 3}, this->Row("job", 11)});
  this->Reopen();
  EXPECT_THAT(this->Listed({.job = "job"}),
              testing::ElementsAre("job 11", "job 10", "job 9", "job 8", "job 7", "job 6"));
  EXPECT_THAT(this->Listed({.job = "other"}), testing::ElementsAre("other 1"));
  this->Commit({scheduler::RowsTrimmed{"job", 100}});
  EXPECT_THAT(this->Listed({.job = "job"}), testing::IsEmpty());
}

TYPED_TEST_P(LedgerContractTest, ForgettingAJobRemovesItsRows) {
  this->Commit({this->FullState(), this->Row("job", 1), this->Row("job", 2), this->Row("joby", 1),
                scheduler::JobState{.job = "joby", .cursor = this->Second(1)},
                scheduler::Intent{"job", this->Second(3)}});
  this->Commit({scheduler::JobForgotten{"job"}});
  this->Reopen();
  EXPECT_EQ(this->Loaded().jobs.size(), 1u);
  EXPECT_EQ(this->Loaded().intents.size(), 1u);
  EXPECT_THAT(this->Listed({}), testing::ElementsAre("joby 1"));
}

REGISTER_TYPED_TEST_SUITE_P(LedgerContractTest, NewLedgerIsEmpty,
                            EveryFieldOfEverythingSurvivesReopening, LaterChangesReplaceEarlierOnes,
                            OneBatchMayWriteAndForgetTheSameThing, RowsAreListedNewestFirstInPages,
                            TriggersHaveRowsNextToTheOccurrenceOfTheSameSecond,
                            RowsCanBeFilteredByOutcome, TrimRemovesTheOldestRowsOfTheJob,
                            ForgettingAJobRemovesItsRows);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_LEDGER_CONTRACT_H_
