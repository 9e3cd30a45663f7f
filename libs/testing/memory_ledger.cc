#include "libs/testing/memory_ledger.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "libs/base/check.h"

namespace callboard::test {
namespace {

using scheduler::FiringCursor;
using scheduler::FiringPage;
using scheduler::FiringQuery;
using scheduler::LedgerChange;

class MemoryLedger final : public scheduler::Ledger {
 public:
  MemoryLedger(MemoryLedgers& disk, const MemoryLedgers::DecideCommit& decide, bool& is_open)
      : disk_(disk), decide_(decide), is_open_(is_open) {
    CHECK(!is_open_) << "the ledger is open already";
    is_open_ = true;
  }
  ~MemoryLedger() override { is_open_ = false; }

  absl::Status Commit(absl::Span<const LedgerChange> batch) override {
    CHECK(!failed_) << "a ledger that has failed must not be written again";
    const MemoryLedgers::CommitResult result =
        decide_ ? decide_(batch) : MemoryLedgers::CommitResult();
    if (result.written) {
      for (const LedgerChange& change : batch) disk_.Write(change);
    }
    failed_ = !result.status.ok();
    return result.status;
  }
  absl::StatusOr<scheduler::LedgerContents> Load() const override { return disk_.contents(); }
  absl::StatusOr<FiringPage> ListFirings(const FiringQuery& query) const override {
    std::vector<core::Firing> all;
    for (const auto& [job, rows] : disk_.rows()) {
      if (!query.job.empty() && job != query.job) continue;
      for (const auto& [key, row] : rows) all.push_back(row);
    }
    const auto comes_before = [](const core::Firing& a, const core::Firing& b) {
      if (a.nominal != b.nominal) return a.nominal > b.nominal;
      return a.job != b.job ? a.job < b.job : a.trigger > b.trigger;
    };
    std::sort(all.begin(), all.end(), comes_before);
    FiringPage page;
    FiringCursor last;
    size_t looked_at = 0;
    for (const core::Firing& row : all) {
      if (query.after.has_value() && !comes_before({.job = query.after->job,
                                                    .nominal = query.after->nominal,
                                                    .trigger = query.after->trigger},
                                                   row)) {
        continue;
      }
      if (page.firings.size() == query.page_size || looked_at++ == scheduler::kRowsScannedMax) {
        page.next = last;
        return page;
      }
      last = {row.nominal, row.job, row.trigger};
      const auto& outcomes = query.outcomes;
      if (outcomes.empty() ||
          std::find(outcomes.begin(), outcomes.end(), row.outcome) != outcomes.end()) {
        page.firings.push_back(row);
      }
    }
    return page;
  }

 private:
  MemoryLedgers& disk_;
  const MemoryLedgers::DecideCommit& decide_;
  bool& is_open_;
  bool failed_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<scheduler::Ledger>> MemoryLedgers::Open() {
  if (!open_status_.ok()) return open_status_;
  return std::make_unique<MemoryLedger>(*this, decide_, is_open_);
}

void MemoryLedgers::Write(const LedgerChange& change) {
  struct Step {
    void operator()(const core::Firing& row) const {
      disk.rows_[row.job][{row.nominal, row.trigger}] = row;
    }
    void operator()(const scheduler::JobState& state) const {
      disk.contents_.jobs[state.job] = state;
    }
    void operator()(const scheduler::Intent& intent) const {
      disk.contents_.intents[{intent.job, intent.nominal}] = intent;
    }
    void operator()(const scheduler::IntentResolved& intent) const {
      disk.contents_.intents.erase({intent.job, intent.nominal});
    }
    void operator()(const scheduler::Backfill& backfill) const {
      disk.contents_.backfills[backfill.id] = backfill;
    }
    void operator()(const scheduler::BackfillForgotten& backfill) const {
      disk.contents_.backfills.erase(backfill.id);
    }
    void operator()(const scheduler::RowsTrimmed& trimmed) const {
      auto& rows = disk.rows_[trimmed.job];
      for (uint64_t i = 0; i < trimmed.count && !rows.empty(); ++i) rows.erase(rows.begin());
    }
    void operator()(const scheduler::JobForgotten& job) const {
      disk.contents_.jobs.erase(job.job);
      disk.rows_.erase(job.job);
    }
    MemoryLedgers& disk;
  };
  std::visit(Step{*this}, change);
}

}  // namespace callboard::test
