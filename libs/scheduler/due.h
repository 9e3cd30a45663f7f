#ifndef CALLBOARD_LIBS_SCHEDULER_DUE_H_
#define CALLBOARD_LIBS_SCHEDULER_DUE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/core/job.h"
#include "libs/core/schedule.h"

namespace callboard::scheduler {

// An occurrence that is late by at most this much is on time, so that catch_up does not apply.
inline constexpr absl::Duration kOnTimeLimit = absl::Minutes(1);
// The last missed occurrence is run if it is not older than this. The director remembers a request
// id for the same time, so an occurrence that an earlier or a second scheduler submitted does not
// run again.
inline constexpr absl::Duration kCatchUpAgeMax = absl::Hours(24);
// Rows written for the missed occurrences of one outage. One more row summarizes all earlier ones.
inline constexpr size_t kMissedRowsMax = 1000;
// The summary row counts up to this many occurrences.
inline constexpr uint64_t kMissedCountMax = 10'000;

// Selects the occurrences to be decided: those in (after, now].
struct DueQuery {
  absl::Time after;
  absl::Time now;
  // Occurrences before this time are skipped by a pause.
  absl::Time paused_until = absl::InfinitePast();
  // Delay occurrences by the job's jitter.
  bool jitter = true;
};

// The decisions about all due occurrences: those in `rows` do not run, those in `fires` do. Oldest
// first.
struct DueDecisions {
  struct Row {
    core::Occurrence occurrence;
    core::FiringOutcome outcome;
    std::string detail = {};
    // As Firing::more.
    uint64_t more = 0;
  };

  std::vector<Row> rows = {};
  std::vector<core::Occurrence> fires = {};
  // Every occurrence up to this time is decided.
  absl::Time cursor;
};

// Decides the due occurrences according to the job's catch_up. Decides nothing while the last one
// waits for its jitter.
DueDecisions DecideOccurrences(const core::Job& job, const DueQuery& query);

// Returns the note in an occurrence's row about the wall times in a clock gap before it, which have
// no own rows. Empty if there are none.
std::string GapNote(const core::Occurrence& occurrence);

// Returns when DecideOccurrences() has something to decide. Occurrences up to `query.now` are
// already missed.
absl::Time NextDueAt(const core::Job& job, const DueQuery& query);

// Returns the time in UTC, to the second, as rows and notices show it.
std::string TimeText(absl::Time time);

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_DUE_H_
