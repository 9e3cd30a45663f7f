// The scheduler's durable state: the outcome of every occurrence, and the state of each job.
#ifndef CALLBOARD_LIBS_SCHEDULER_LEDGER_H_
#define CALLBOARD_LIBS_SCHEDULER_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/job.h"
#include "libs/core/task.h"

namespace callboard::scheduler {

struct Pause {
  // The identity that paused the job; `file` is the jobs file, `scheduler` the scheduler itself.
  std::string by = {};
  std::string why = {};
  absl::Time since = {};
  // InfiniteFuture: until ResumeJob.
  absl::Time until = absl::InfiniteFuture();
  // Occurrences that it skipped.
  uint64_t skipped = 0;

  friend bool operator==(const Pause&, const Pause&) = default;
};

// The state of a job, without its rows.
struct JobState {
  std::string job = {};
  // Every occurrence up to this time has a row or an intent.
  absl::Time cursor = {};
  std::optional<Pause> pause = {};
  // The last value of `paused` in the file. A pause or resume by an operator holds until that value
  // changes.
  bool paused_in_file = false;
  // Occurrences that ran, and whether `max_runs` is reached.
  uint64_t runs = 0;
  bool finished = false;
  // Failures in a row among the job's latest tasks, including triggers and backfills.
  uint32_t failures_in_row = 0;
  // Tasks that are not known to have ended, oldest first.
  std::vector<std::string> tracked_tasks = {};
  // The latest tasks of triggers, oldest first. Each has a row.
  std::vector<std::string> triggered_tasks = {};
  // Ids of triggers that may have a task but have no row yet, oldest first.
  std::vector<std::string> open_triggers = {};
  // The final state of the task that ended last, and the reason if it failed.
  std::optional<core::LifecycleState> last_run_state = {};
  std::optional<core::FailureReason> last_run_reason = {};
  // The outcome and nominal time of the last decided occurrence, and the last submitted task.
  std::optional<core::FiringOutcome> last_outcome = {};
  absl::Time last_nominal = absl::InfinitePast();
  std::string last_queue_id = {};
  // Upper bound on the number of the job's rows.
  uint64_t rows = 0;
  // When the job was found missing from the file; absent while the file has it.
  std::optional<absl::Time> removed_at = {};

  friend bool operator==(const JobState&, const JobState&) = default;
};

// An occurrence that is about to be submitted. From now on the director may have its task.
struct Intent {
  std::string job = {};
  absl::Time nominal = {};
  // Its wall time does not exist (clocks were set forward), so it runs at the transition.
  bool moved = false;
  // It is started directly on an agent, and no longer submitted to the director.
  bool direct = false;

  friend bool operator==(const Intent&, const Intent&) = default;
};

// An operator's request to run occurrences of a past period.
struct Backfill {
  std::string id = {};
  std::string job = {};
  std::string by = {};
  // The requested period.
  absl::Time from = {};
  absl::Time until = {};
  // Oldest first. The first `done` of them have a row.
  std::vector<absl::Time> occurrences = {};
  uint64_t done = 0;
  absl::Time began_at = {};
  // When the last occurrence was done; absent until then.
  std::optional<absl::Time> ended_at = {};

  friend bool operator==(const Backfill&, const Backfill&) = default;
};

struct IntentResolved {
  std::string job = {};
  absl::Time nominal = {};
};
// Removes the `count` oldest rows of a job.
struct RowsTrimmed {
  std::string job = {};
  uint64_t count = 0;
};
// Removes a job with its rows. Intents stay.
struct JobForgotten {
  std::string job = {};
};
struct BackfillForgotten {
  std::string id = {};
};

// Each change replaces the stored value with the same name and time.
using LedgerChange = std::variant<core::Firing, JobState, Intent, IntentResolved, Backfill,
                                  BackfillForgotten, RowsTrimmed, JobForgotten>;

// Everything in the ledger except the rows.
struct LedgerContents {
  std::map<std::string, JobState> jobs = {};
  std::map<std::pair<std::string, absl::Time>, Intent> intents = {};
  std::map<std::string, Backfill> backfills = {};

  friend bool operator==(const LedgerContents&, const LedgerContents&) = default;
};

// A position among the rows. Rows are ordered by nominal time, newest first; within one second by
// the name of the job; and the triggers of a job within one second by id, in descending order.
struct FiringCursor {
  absl::Time nominal = {};
  std::string job = {};
  std::string trigger = {};

  friend bool operator==(const FiringCursor&, const FiringCursor&) = default;
};
struct FiringQuery {
  // Empty: all jobs.
  std::string job = {};
  // Empty: any outcome.
  std::vector<core::FiringOutcome> outcomes = {};
  size_t page_size = 50;
  std::optional<FiringCursor> after = {};
};
// Newest row first. If `next` is present there may be more rows, even if the page is not full,
// because a page scans at most kRowsScannedMax rows.
struct FiringPage {
  std::vector<core::Firing> firings = {};
  std::optional<FiringCursor> next = {};
};

// Rows that one page scans.
inline constexpr size_t kRowsScannedMax = 10'000;

// The store of a scheduler. One thread may call Commit(); the other methods are thread-safe.
class Ledger {
 public:
  // Closes the ledger, so that it can be opened again.
  virtual ~Ledger() = default;

  // Writes the changes atomically and in order. When it returns OK they survive a crash of the
  // machine. After an error the outcome is unknown and no further Commit() succeeds: the caller
  // must close the ledger and open it again. RESOURCE_EXHAUSTED means that the disk is full.
  virtual absl::Status Commit(absl::Span<const LedgerChange> batch) = 0;

  // Returns DATA_LOSS if the stored data is damaged.
  virtual absl::StatusOr<LedgerContents> Load() const = 0;
  virtual absl::StatusOr<FiringPage> ListFirings(const FiringQuery& query) const = 0;
};

// Opens the ledger, at the start and again after each failed commit. Errors have the same reasons
// as those of ports::EventStoreOpener.
class LedgerOpener {
 public:
  virtual ~LedgerOpener() = default;

  // REQUIRES: the ledger that was opened before is destroyed.
  virtual absl::StatusOr<std::unique_ptr<Ledger>> Open() = 0;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_LEDGER_H_
