// Trace and span ids with their W3C text form, and the derived ids of a task's spans.

#ifndef CALLBOARD_LIBS_CORE_TRACE_H_
#define CALLBOARD_LIBS_CORE_TRACE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/value_types.h"
#include "libs/core/ids.h"

namespace callboard::core {

// An id of all zeros is invalid and means no id.
using TraceId = base::StrongId<struct TraceIdTag, std::array<uint8_t, 16>>;
using SpanId = base::StrongId<struct SpanIdTag, std::array<uint8_t, 8>>;

// Parses 32 lower-case hex digits. Returns null for any other text, and for all zeros.
std::optional<TraceId> ParseTraceId(absl::string_view hex);
std::string ToString(const TraceId& id);

// The part of a span that its children need, in this process and in others.
struct SpanContext {
  TraceId trace_id;
  SpanId span_id;
  // True if the trace is recorded, according to the caller.
  bool sampled = true;

  friend bool operator==(const SpanContext&, const SpanContext&) = default;
};

// Makes a span id from a random number.
SpanId NewSpan(uint64_t random);
// Makes the first span of a new trace from random numbers.
SpanContext NewTrace(const std::array<uint64_t, 3>& random);

// Parses a `traceparent` header of version 00 or later. Returns null if it is malformed; W3C
// requires that a malformed header is treated like an absent one.
std::optional<SpanContext> ParseTraceparent(absl::string_view traceparent);

// Formats a header such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.
std::string FormatTraceparent(const SpanContext& context);

// Returns true if the trace is in the sample of the share `ratio` of all traces. The result depends
// only on the arguments, so services agree without communication. A smaller sample is a subset of
// every larger one.
//
// REQUIRES: 0 <= ratio <= 1.
bool IsSampled(const TraceId& trace_id, double ratio);

// ---- The ids of a task's spans ----
//
// They are derived from the task's stored data, so a restarted director can end the spans that its
// predecessor began. The trace id of a scheduler's submit is derived from its request, so all
// attempts to send the request are in one trace.

// A dispatch that comes later than this after the previous one begins a new trace, because users do
// not look for it among old spans.
inline constexpr absl::Duration kTraceGapMax = absl::Minutes(5);

// Returns the span of the submit of a task whose submitter sent no trace.
SpanContext SubmitSpan(QueueId id);

// Returns the id of the span of one wait in the queue. `before` is the previous dispatch, or
// DispatchNumber() for the first wait.
SpanId WaitSpanId(QueueId id, DispatchNumber before);

SpanId DispatchSpanId(QueueId id, DispatchNumber dispatch);
// Returns the id of the trace that a late dispatch begins (kTraceGapMax).
TraceId DispatchTraceId(QueueId id, DispatchNumber dispatch);

// Returns the id of the span of a cancel. The span is a child of the submit span.
SpanId CancelSpanId(const SpanId& submit);

// Returns the id of the trace of all attempts to submit a request to the director at this address.
// Restarted schedulers, and other schedulers with the same jobs, use the same trace.
TraceId FireTraceId(absl::string_view director, absl::string_view request_id);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TRACE_H_
