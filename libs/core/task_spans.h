// The names of a task's spans. All of them follow from what the store has of the task, so a
// director that was restarted ends what its predecessor began.
#ifndef CALLBOARD_LIBS_CORE_TASK_SPANS_H_
#define CALLBOARD_LIBS_CORE_TASK_SPANS_H_

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

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TASK_SPANS_H_
