#ifndef CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_
#define CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "libs/core/ids.h"
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

// A result that was thrown away, and of which no record says so: nobody knows the task any more, or
// its records are older than the dispatch.
struct OrphanResult {
  core::FenceToken token = {};
  // Who reported it.
  std::string agent = {};
  // None when nobody knows the task any more.
  core::TraceId trace = {};

  friend bool operator==(const OrphanResult&, const OrphanResult&) = default;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_STEP_H_
