#ifndef CALLBOARD_LIBS_TESTING_MEMORY_LEDGER_H_
#define CALLBOARD_LIBS_TESTING_MEMORY_LEDGER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "libs/scheduler/ledger.h"

namespace callboard::test {

// An in-memory Ledger for tests: committed changes live as long as this object, not as long as the
// ledgers that it opens. Commits and opens fail on request. Not thread-safe.
class MemoryLedgers final : public scheduler::LedgerOpener {
 public:
  // Keyed by job, then by nominal time and trigger. The trigger is empty for an occurrence of the
  // schedule.
  using Rows = std::map<std::string, std::map<std::pair<absl::Time, std::string>, core::Firing>>;
  // The result of a commit: its status, and whether the batch reaches the disk regardless of the
  // status.
  struct CommitResult {
    absl::Status status = {};
    bool written = true;
  };
  using DecideCommit = std::function<CommitResult(absl::Span<const scheduler::LedgerChange>)>;

  explicit MemoryLedgers(DecideCommit decide = nullptr) : decide_(std::move(decide)) {}

  absl::StatusOr<std::unique_ptr<scheduler::Ledger>> Open() override;
  void FailToOpen(absl::Status status) { open_status_ = std::move(status); }

  void Write(const scheduler::LedgerChange& change);
  const scheduler::LedgerContents& contents() const { return contents_; }
  const Rows& rows() const { return rows_; }

 private:
  const DecideCommit decide_;
  absl::Status open_status_;
  bool is_open_ = false;
  scheduler::LedgerContents contents_;
  Rows rows_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_MEMORY_LEDGER_H_
