// A cron job as the jobs file declares it: its schedule, the task that it submits, and its policies
// for occurrences that are missed or cannot be submitted. Then its firings: the outcomes of its
// occurrences.

#ifndef CALLBOARD_LIBS_CORE_JOB_H_
#define CALLBOARD_LIBS_CORE_JOB_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/limits.h"
#include "libs/core/queue.h"
#include "libs/core/schedule.h"
#include "libs/core/task.h"
#include "libs/core/trace.h"

namespace callboard::core {

inline constexpr absl::Duration kJitterMax = absl::Seconds(kJitterSecondsMax);
inline constexpr absl::Duration kQueueFullWaitMax = absl::Seconds(kQueueFullWaitSecondsMax);
static_assert(kJobNameBytesMax + kCallNameBytesMax + sizeof("backfill///-9223372036854775808") <=
                  kRequestIdBytesMax,
              "every request id of a job is within its limit");

// Policy for missed occurrences.
struct CatchUp {
  enum class Kind {
    // Run the latest one, unless it is older than a day.
    kLatest,
    // Run no missed occurrence.
    kNone,
    // Run the latest `count`, in order.
    kAll,
  };

  Kind kind = Kind::kLatest;
  uint32_t count = 0;

  friend bool operator==(const CatchUp&, const CatchUp&) = default;
};

// The task that each occurrence of a job submits: a serialized callboard.v1.SubmitTaskRequest
// without the fields of a JobSubmission. Never null. Shared with the submits that are under way.
using JobTask = std::shared_ptr<const std::string>;

struct Job {
  std::string name = {};
  // Parsed from `text` and `time_zone`.
  Schedule schedule = {};
  ScheduleText text = {};
  // IANA name; UTC when empty.
  std::string time_zone = {};
  OverlapPolicy overlap = OverlapPolicy::kSkip;
  CatchUp catch_up = {};
  // How long an occurrence waits for a place in a full queue; zero skips the occurrence.
  absl::Duration queue_full_wait = {};
  // Upper bound of the delay by which an occurrence is submitted later. The delay of an occurrence
  // is always the same.
  absl::Duration jitter = {};
  // Occurrences are in [start, end).
  absl::Time start = absl::InfinitePast();
  absl::Time end = absl::InfiniteFuture();
  // Maximum number of occurrences that run; 0 for no limit.
  uint32_t max_runs = 0;
  bool paused = false;
  // Number of consecutive failures after which the job is paused; 0 for never.
  uint32_t pause_after_failures = 0;
  // The agent that starts the task directly, without the queue, while the director is unreachable.
  // Empty to skip the occurrence instead.
  std::string agent_url = {};
  JobTask task = std::make_shared<const std::string>();
  // The origin of each effective value, by field: `file` or `default`.
  std::map<std::string, std::string> origins = {};
};

// Checks the limits of a job. Returns INVALID_ARGUMENT with a field violation that names the key in
// the jobs file.
absl::Status CheckJob(const Job& job);
// Checks the name of a job, trigger or backfill: 1 to `bytes_max` letters, digits, `.`, `_` and
// `-`. `what` describes the name in the error message.
absl::Status CheckName(absl::string_view name, size_t bytes_max, absl::string_view what);

// Returns true if two versions of a job have the same occurrences.
bool HaveSameTimes(const Job& one, const Job& other);

// Return the nearest occurrence strictly after `after` or strictly before `before`, including
// occurrences that do not fire.
std::optional<Occurrence> NextOccurrence(const Job& job, absl::Time after);
std::optional<Occurrence> PreviousOccurrence(const Job& job, absl::Time before);
// Returns the nearest occurrence strictly after `after` that fires. Only a firing occurrence ends
// the wait of the one before it, because a suppressed or skipped one runs nothing instead.
std::optional<Occurrence> NextFiringOccurrence(const Job& job, absl::Time after);

// Returns the first `count_max` occurrences in [from, until).
std::vector<Occurrence> ListOccurrences(const Job& job, absl::Time from, absl::Time until,
                                        size_t count_max);

// Returns the delay by which an occurrence is submitted later: less than `job.jitter`, and short
// enough to be before the next occurrence.
absl::Duration OccurrenceJitter(const Job& job, const Occurrence& occurrence);

std::string CronRequestId(absl::string_view job, absl::Time nominal);
std::string TriggerRequestId(absl::string_view job, absl::string_view trigger);
std::string BackfillRequestId(absl::string_view job, absl::string_view backfill,
                              absl::Time nominal);

// One submit of a job's task.
struct JobSubmission {
  std::string job = {};
  JobTask task = std::make_shared<const std::string>();
  std::string request_id = {};
  Overlap overlap = {};
  // The scheduler itself waits while the queue is full, so that the wait does not depend on an open
  // call.
  QueuePolicy policy = QueuePolicy::kReject;
  // The span of the submit; SpanContext() if it has none.
  SpanContext trace = {};
};

JobSubmission MakeJobSubmission(const Job& job, std::string request_id, OverlapPolicy overlap);

// ---- Firings ----

enum class FiringOutcome {
  kFired,
  kSkippedOverlap,
  kSkippedQueueFull,
  kSkippedDirectorDown,
  kCoalesced,
  kMissedWindow,
  kPaused,
  // Submitted when the clocks were set forward.
  kDstGapMoved,
  kDstFoldSuppressed,
  kSkippedCalendar,
  // The director rejected the task permanently.
  kRejected,
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
    FiringOutcome::kRejected,
};

// Returns the text form, such as `skipped_queue_full`.
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
    case FiringOutcome::kRejected:
      return "refused";
  }
  return "";
}

// Returns true if a task was submitted for the occurrence.
constexpr bool HasTask(FiringOutcome outcome) {
  return outcome == FiringOutcome::kFired || outcome == FiringOutcome::kDstGapMoved;
}

// Returns the status that a job shows for its last occurrence: `queued` if there is a task, else
// the name of the outcome.
constexpr absl::string_view StatusText(FiringOutcome outcome) {
  return HasTask(outcome) ? "queued" : Name(outcome);
}

// One row of the ledger. There is one for every occurrence and every accepted trigger.
struct Firing {
  std::string job = {};
  // The time at which it was due or triggered, in whole seconds.
  absl::Time nominal = {};
  // The id of the trigger; empty for an occurrence of the schedule.
  std::string trigger = {};
  FiringOutcome outcome = FiringOutcome::kFired;
  absl::Time decided_at = {};
  // The submitted task, or the task that prevented the submit.
  std::string queue_id = {};
  // Makes the submit idempotent.
  std::string request_id = {};
  // Human-readable details.
  std::string detail = {};
  // Number of earlier occurrences that this row represents as well, because there were too many for
  // one row each.
  uint64_t more = 0;

  friend bool operator==(const Firing&, const Firing&) = default;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_JOB_H_
