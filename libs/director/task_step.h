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
#include "libs/core/trace_context.h"

namespace callboard::director {

// What a record of a task leaves out, because those before it say it.
struct TaskStep {
  // Which of the turn's records it is about.
  size_t record = 0;
  // Where the task stood before, and since when; of one that was not there, pending and never.
  core::TaskState from = core::TaskState::kPending;
  absl::Time since = absl::InfinitePast();
  absl::Time submitted_at = absl::InfinitePast();
  // Before it, out of how many.
  uint32_t attempts = 0;
  uint32_t max_attempts = 0;
  // The span of its submit.
  core::SpanContext trace = {};
  // The current or last dispatch before: its number, its span, and when it began. Absent and never
  // before the first.
  core::DispatchNumber dispatch = {};
  core::SpanContext dispatch_trace = {};
  absl::Time dispatched_at = absl::InfinitePast();
};

// Where a task is when a cancel comes: its caller waits for a place, it is in line, an agent was
// asked to start it, an agent runs it.
enum class CancelPhase { kWaiting, kQueued, kDispatching, kInFlight };

// Nothing when the record asks for no cancel: one that ends a run says so a second time.
inline std::optional<CancelPhase> CancelPhaseOf(const core::TaskRecord& record,
                                                const TaskStep& step) {
  if (std::holds_alternative<core::CancelRequested>(record.change)) {
    return step.from == core::TaskState::kDispatching ? CancelPhase::kDispatching
                                                      : CancelPhase::kInFlight;
  }
  const auto* ended = std::get_if<core::Ended>(&record.change);
  const bool is_queued = ended != nullptr && ended->state == core::TaskState::kCancelled &&
                         step.from == core::TaskState::kPending;
  return is_queued ? std::optional(CancelPhase::kQueued) : std::nullopt;
}

// A result that was thrown away, and of which no record says so: nobody knows the task any more, or
// its records are older than the dispatch. Or a run of a task that the store does not know.
struct OrphanResult {
  core::FenceToken token = {};
  // Who reported it.
  std::string agent = {};
  // None when nobody knows the task any more.
  core::TraceId trace = {};
  // The agent listed it in an inventory; there is no result yet.
  bool is_run = false;

  friend bool operator==(const OrphanResult&, const OrphanResult&) = default;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_
