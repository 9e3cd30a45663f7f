#ifndef CALLBOARD_LIBS_SCHEDULER_DUE_H_
#define CALLBOARD_LIBS_SCHEDULER_DUE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/core/firing.h"
#include "libs/core/job.h"
#include "libs/core/schedule.h"

namespace callboard::scheduler {

// An occurrence is on time, and so no matter of catch_up, for so long.
inline constexpr absl::Duration kOnTime = absl::Minutes(1);
// The last of those that were missed is run if it is not older. The director knows a request id for
// as long, so that nothing that a predecessor or a second scheduler ran is run again.
inline constexpr absl::Duration kCatchUpAge = absl::Hours(24);
// Rows of one gap in the life of a job; one more row stands for all that came before.
inline constexpr size_t kGapRowsMax = 1000;
// How far those are counted.
inline constexpr uint64_t kGapCountMax = 10'000;

// Which occurrences are to be decided: those after the first and up to the second.
struct DueQuery {
  absl::Time after;
  absl::Time now;
  // Those before it fall into a pause.
  absl::Time paused_until = absl::InfinitePast();
  // Whether a job's jitter is waited for.
  bool jitter = true;
};

// What becomes of the occurrences whose time has come. Oldest first.
struct Due {
  struct Row {
    core::Occurrence occurrence;
    core::FiringOutcome outcome;
    std::string detail = {};
    // As Firing's.
    uint64_t more = 0;
  };

  std::vector<Row> rows = {};
  std::vector<core::Occurrence> fires = {};
  // Everything up to here is decided.
  absl::Time cursor;
};

// Decides as the job's catch_up says. Nothing while the last one waits for its jitter.
Due FindDue(const core::Job& job, const DueQuery& query);

// What the row of an occurrence says of wall times in a gap before it that have no row of their
// own; empty when there are none.
std::string GapNote(const core::Occurrence& occurrence);

// When FindDue() has something to decide; `query.now` says what is missed already.
absl::Time NextDue(const core::Job& job, const DueQuery& query);

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_DUE_H_
