#ifndef CALLBOARD_LIBS_TESTING_MEMORY_LEDGER_H_
#define CALLBOARD_LIBS_TESTING_MEMORY_LEDGER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "libs/scheduler/ledger.h"

namespace callboard::test {

// The Ledger of tests: what is committed stays for as long as this object does, whatever becomes of
// the ledgers it opens. Fails when it is told to. Not thread-safe.
class MemoryLedgers final : public scheduler::LedgerOpener {
 public:
  // By job; then by nominal time and trigger, which is empty for an occurrence of the schedule.
  using Rows = std::map<std::string, std::map<std::pair<absl::Time, std::string>, core::Firing>>;
  // What becomes of a commit: its answer, and whether the batch is on the disk whatever it says.
  struct Fate {
    absl::Status status = {};
    bool written = true;
  };
  using DecideCommit = std::function<Fate(absl::Span<const scheduler::LedgerChange>)>;

  explicit MemoryLedgers(DecideCommit decide = nullptr) : decide_(std::move(decide)) {}

  absl::StatusOr<std::unique_ptr<scheduler::Ledger>> Open() override;
  void FailToOpen(absl::Status status) { open_status_ = std::move(status); }

  void Write(const scheduler::LedgerChange& change);
  const scheduler::Ledgered& ledgered() const { return ledgered_; }
  const Rows& rows() const { return rows_; }

 private:
  const DecideCommit decide_;
  absl::Status open_status_;
  bool is_open_ = false;
  scheduler::Ledgered ledgered_;
  Rows rows_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_MEMORY_LEDGER_H_
