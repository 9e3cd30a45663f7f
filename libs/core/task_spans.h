// The names of a task's spans. All of them follow from what the store has of the task, so a
// director that was restarted ends what its predecessor began; that of the trace of a fire follows
// from its request, so that all tries are in one.
#ifndef CALLBOARD_LIBS_CORE_TASK_SPANS_H_
#define CALLBOARD_LIBS_CORE_TASK_SPANS_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/trace_context.h"

namespace callboard::core {

// A dispatch that comes longer than this after the one before begins a trace of its own: nobody
// looks for it among spans of long ago.
inline constexpr absl::Duration kTraceGapMax = absl::Minutes(5);

// The submit of a task whose submitter brought no trace.
SpanContext SubmitSpanOf(QueueId id);

// A stay in line: the first when no dispatch came before.
SpanId WaitSpanOf(QueueId id, DispatchNumber before);

// A dispatch.
SpanId DispatchSpanOf(QueueId id, DispatchNumber dispatch);
// The trace that it begins, if it does.
TraceId DispatchTraceOf(QueueId id, DispatchNumber dispatch);

// A cancel, as a child of the span of its submit.
SpanId CancelSpanOf(const SpanId& submit);

// The trace of all tries to submit that request to the director at that address: also of those of
// a scheduler that was restarted in between, or of another one that is told the same jobs.
TraceId FireTraceOf(absl::string_view director, absl::string_view request_id);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TASK_SPANS_H_
