#ifndef CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_
#define CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/core/trace.h"

namespace callboard::director {

// Facts about a task before a change, which the record of the change does not repeat.
struct TaskStep {
  // Index of the record in the turn.
  size_t record = 0;
  // State of the task before the change, and since when. For a new task: pending, since the
  // infinite past.
  core::LifecycleState from = core::LifecycleState::kPending;
  absl::Time since = absl::InfinitePast();
  absl::Time submitted_at = absl::InfinitePast();
  // Attempts before the change, and their limit.
  uint32_t attempts = 0;
  uint32_t max_attempts = 0;
  // Span of the submit.
  core::SpanContext trace = {};
  // The current or last dispatch before the change: number, span and start time. Defaults before
  // the first one.
  core::DispatchNumber dispatch = {};
  core::SpanContext dispatch_trace = {};
  absl::Time dispatched_at = absl::InfinitePast();
};

// State of a task when its cancel arrives: its caller waits for a place, it is pending, a start was
// sent to an agent, or an agent runs it.
enum class CancelPhase { kWaiting, kQueued, kDispatching, kInFlight };

// Returns nothing when the record does not request a cancel. A record that ends a cancelled run
// does not count, because its request was reported before.
inline std::optional<CancelPhase> CancelPhaseOf(const core::TaskRecord& record,
                                                const TaskStep& step) {
  if (std::holds_alternative<core::CancelRequested>(record.change)) {
    return step.from == core::LifecycleState::kDispatching ? CancelPhase::kDispatching
                                                           : CancelPhase::kInFlight;
  }
  const auto* ended = std::get_if<core::TaskEnded>(&record.change);
  const bool is_queued = ended != nullptr && ended->state == core::LifecycleState::kCancelled &&
                         step.from == core::LifecycleState::kPending;
  return is_queued ? std::optional(CancelPhase::kQueued) : std::nullopt;
}

// A discarded result without a record: the task is unknown, or its records are older than the
// dispatch. Or a run of a task that the store does not know.
struct OrphanResult {
  core::FenceToken token = {};
  // The agent that reported it.
  std::string agent = {};
  // Empty when the task is unknown.
  core::TraceId trace = {};
  // True for a run that the agent listed in an inventory; it has no result yet.
  bool is_run = false;

  friend bool operator==(const OrphanResult&, const OrphanResult&) = default;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_
