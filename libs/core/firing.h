// What became of one occurrence of a cron job, as its ledger keeps it.
#ifndef CALLBOARD_LIBS_CORE_FIRING_H_
#define CALLBOARD_LIBS_CORE_FIRING_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::core {

enum class FiringOutcome {
  kFired,
  kSkippedOverlap,
  kSkippedQueueFull,
  kSkippedDirectorDown,
  kCoalesced,
  kMissedWindow,
  kPaused,
  // Ran, at the transition.
  kDstGapMoved,
  kDstFoldSuppressed,
  kSkippedCalendar,
  // The director will never take such a task.
  kRefused,
};
inline constexpr FiringOutcome kFiringOutcomes[] = {
    FiringOutcome::kFired,
    FiringOutcome::kSkippedOverlap,
    FiringOutcome::kSkippedQueueFull,
    FiringOutcome::kSkippedDirectorDown,
    FiringOutcome::kCoalesced,
    FiringOutcome::kMissedWindow,
    FiringOutcome::kPaused,
    FiringOutcome::kDstGapMoved,
    FiringOutcome::kDstFoldSuppressed,
    FiringOutcome::kSkippedCalendar,
    FiringOutcome::kRefused,
};

// As people read it: `skipped_queue_full`.
constexpr absl::string_view Name(FiringOutcome outcome) {
  switch (outcome) {
    case FiringOutcome::kFired:
      return "fired";
    case FiringOutcome::kSkippedOverlap:
      return "skipped_overlap";
    case FiringOutcome::kSkippedQueueFull:
      return "skipped_queue_full";
    case FiringOutcome::kSkippedDirectorDown:
      return "skipped_director_down";
    case FiringOutcome::kCoalesced:
      return "coalesced";
    case FiringOutcome::kMissedWindow:
      return "missed_window";
    case FiringOutcome::kPaused:
      return "paused";
    case FiringOutcome::kDstGapMoved:
      return "dst_gap_moved";
    case FiringOutcome::kDstFoldSuppressed:
      return "dst_fold_suppressed";
    case FiringOutcome::kSkippedCalendar:
      return "skipped_calendar";
    case FiringOutcome::kRefused:
      return "refused";
  }
  return "";
}

// Whether there is a task of it.
constexpr bool HasRun(FiringOutcome outcome) {
  return outcome == FiringOutcome::kFired || outcome == FiringOutcome::kDstGapMoved;
}

// What a job shows of its last occurrence: `queued` when there is a task of it.
constexpr absl::string_view StatusText(FiringOutcome outcome) {
  return HasRun(outcome) ? "queued" : Name(outcome);
}

// One row. There is one for every occurrence and every answered trigger.
struct Firing {
  std::string job = {};
  // When it was due, or triggered; a whole second.
  absl::Time nominal = {};
  // The id of the trigger that asked for it; empty for an occurrence of the schedule.
  std::string trigger = {};
  FiringOutcome outcome = FiringOutcome::kFired;
  absl::Time decided_at = {};
  // Its task, or the one that stood in its way.
  std::string queue_id = {};
  // Makes its submit repeatable.
  std::string request_id = {};
  // More, for people.
  std::string detail = {};
  // So many occurrences before it that the row stands for too: there were too many for rows of
  // their own.
  uint64_t more = 0;

  friend bool operator==(const Firing&, const Firing&) = default;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_FIRING_H_
