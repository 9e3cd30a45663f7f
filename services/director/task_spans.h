#ifndef CALLBOARD_SERVICES_DIRECTOR_TASK_SPANS_H_
#define CALLBOARD_SERVICES_DIRECTOR_TASK_SPANS_H_

#include "libs/core/record.h"
#include "libs/director/observer.h"
#include "libs/director/task_step.h"
#include "libs/ports/telemetry.h"

namespace callboard {

// Returns whether the step ends a span.
bool EndsSpan(const core::TaskRecord& record);
// Returns the span that the step ends: a wait in the queue, a dispatch or a redrive.
// REQUIRES: EndsSpan(record).
ports::FinishedSpan SpanOf(const core::TaskRecord& record, const director::TaskStep& step);

// Returns the span of a cancel. It has no duration, except for a caller that left while it waited
// for a place: then it lasts as long as the caller waited.
ports::FinishedSpan SpanOf(const director::CancelledTask& task);

// Emit the spans that a turn has ended, and the span of a cancel, unless their trace is not
// sampled.
void EmitSpans(absl::Span<const core::Record> records, absl::Span<const director::TaskStep> steps,
               ports::Telemetry& telemetry);
void EmitSpan(const director::CancelledTask& task, ports::Telemetry& telemetry);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_TASK_SPANS_H_
