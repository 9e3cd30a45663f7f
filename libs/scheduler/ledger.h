// What a scheduler remembers over its restarts: what became of every occurrence, and where it
// stands with each job.
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
#include "libs/core/firing.h"
#include "libs/core/task.h"

namespace callboard::scheduler {

struct Pause {
  // An identity; `file` and `scheduler` are the jobs file and the scheduler itself.
  std::string by = {};
  std::string why = {};
  absl::Time since = {};
  // Until somebody ends it, when infinite.
  absl::Time until = absl::InfiniteFuture();
  // Occurrences that fell into it.
  uint64_t skipped = 0;

  friend bool operator==(const Pause&, const Pause&) = default;
};

// Where the scheduler stands with a job. Rows are beside it.
struct JobState {
  std::string job = {};
  // Every occurrence up to here has its row, or an intent.
  absl::Time cursor = {};
  std::optional<Pause> pause = {};
  // What the file said of it last: an operator's word holds until that changes.
  bool paused_in_file = false;
  // Occurrences that ran, and whether they were all that the job may.
  uint64_t runs = 0;
  bool finished = false;
  // Failures of its latest tasks, whoever asked for them.
  uint32_t failures_in_row = 0;
  // Tasks whose end is not known yet, oldest first.
  std::vector<std::string> watched = {};
  // The latest tasks of triggers, oldest first: each has its row.
  std::vector<std::string> triggered = {};
  // Ids of triggers that may have a task without a row, oldest first.
  std::vector<std::string> open_triggers = {};
  // How the last task that is known to have ended did; the reason of one that failed.
  std::optional<core::TaskState> last_run_state = {};
  std::optional<core::FailureReason> last_run_reason = {};
  // Of the last occurrence that was decided, and the last that made a task.
  std::optional<core::FiringOutcome> last_outcome = {};
  absl::Time last_nominal = absl::InfinitePast();
  std::string last_queue_id = {};
  // Rows that it has, at most.
  uint64_t rows = 0;
  // When it was found missing from the file; absent while it is there.
  std::optional<absl::Time> left_at = {};

  friend bool operator==(const JobState&, const JobState&) = default;
};

// An occurrence that is about to be submitted: from here on the director may know of it.
struct Intent {
  std::string job = {};
  absl::Time nominal = {};
  // Its wall time did not exist, and it runs at the transition.
  bool moved = false;
  // It goes to an agent, past the queue, and no more to the director.
  bool direct = false;

  friend bool operator==(const Intent&, const Intent&) = default;
};

// Occurrences that somebody wants to have run after all.
struct Backfill {
  std::string id = {};
  std::string job = {};
  std::string by = {};
  // What was asked for.
  absl::Time from = {};
  absl::Time until = {};
  // In order; so many of them are done with.
  std::vector<absl::Time> occurrences = {};
  uint64_t done = 0;
  absl::Time began_at = {};
  // When the last of them was; absent while there are more.
  std::optional<absl::Time> ended_at = {};

  friend bool operator==(const Backfill&, const Backfill&) = default;
};

struct IntentResolved {
  std::string job = {};
  absl::Time nominal = {};
};
// The oldest rows of a job are gone, so many of them.
struct RowsTrimmed {
  std::string job = {};
  uint64_t count = 0;
};
// With its rows. Intents stay.
struct JobForgotten {
  std::string job = {};
};
struct BackfillForgotten {
  std::string id = {};
};

// Each takes the place of what was there of the same name, and the same time.
using LedgerChange = std::variant<core::Firing, JobState, Intent, IntentResolved, Backfill,
                                  BackfillForgotten, RowsTrimmed, JobForgotten>;

// All but the rows.
struct Ledgered {
  std::map<std::string, JobState> jobs = {};
  std::map<std::pair<std::string, absl::Time>, Intent> intents = {};
  std::map<std::string, Backfill> backfills = {};

  friend bool operator==(const Ledgered&, const Ledgered&) = default;
};

// A place among rows, which come last first, jobs of one second by name, and the triggers of a job
// in one second by id, the last id first.
struct FiringCursor {
  absl::Time nominal = {};
  std::string job = {};
  std::string trigger = {};

  friend bool operator==(const FiringCursor&, const FiringCursor&) = default;
};
struct FiringQuery {
  // Of all when empty.
  std::string job = {};
  // Any when empty.
  std::vector<core::FiringOutcome> outcomes = {};
  size_t page_size = 50;
  std::optional<FiringCursor> after = {};
};
// The last first. Where `next` is present there may be more, also when the page is not full: a page
// looks at a bounded number of rows.
struct FiringPage {
  std::vector<core::Firing> firings = {};
  std::optional<FiringCursor> next = {};
};

// Rows that a page looks at.
inline constexpr size_t kRowsLookedAtMax = 10'000;

// Commit() has one caller; the rest is thread-safe.
class Ledger {
 public:
  // Releases it, so that it can be opened again.
  virtual ~Ledger() = default;

  // Writes the changes, all or none, in their order. When it returns OK they survive a crash of the
  // machine. After an error the outcome is unknown: the caller closes the ledger and opens it anew;
  // no further Commit() succeeds on this one. RESOURCE_EXHAUSTED: the disk is full.
  virtual absl::Status Commit(absl::Span<const LedgerChange> batch) = 0;

  // DATA_LOSS when what is stored cannot be trusted.
  virtual absl::StatusOr<Ledgered> Load() const = 0;
  virtual absl::StatusOr<FiringPage> ListFirings(const FiringQuery& query) const = 0;
};

// Where a Ledger comes from, again and again. Errors have the reasons of ports::EventStoreOpener.
class LedgerOpener {
 public:
  virtual ~LedgerOpener() = default;

  // REQUIRES: the ledger opened before is gone.
  virtual absl::StatusOr<std::unique_ptr<Ledger>> Open() = 0;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_LEDGER_H_
