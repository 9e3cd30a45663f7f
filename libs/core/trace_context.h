// Which span of which trace, and how W3C's Trace Context writes it.
#ifndef CALLBOARD_LIBS_CORE_TRACE_CONTEXT_H_
#define CALLBOARD_LIBS_CORE_TRACE_CONTEXT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/base/strong_id.h"

namespace callboard::core {

// All zero is no id.
using TraceId = base::StrongId<struct TraceIdTag, std::array<uint8_t, 16>>;
using SpanId = base::StrongId<struct SpanIdTag, std::array<uint8_t, 8>>;

// 32 digits, in lower case; null for anything else, and for the id that is none.
std::optional<TraceId> ParseTraceId(absl::string_view hex);
std::string ToString(const TraceId& id);

// What a span's children, here or in other processes, have to know of it.
struct SpanContext {
  TraceId trace_id;
  SpanId span_id;
  // Whether the trace is kept, as far as those before us know.
  bool sampled = true;

  friend bool operator==(const SpanContext&, const SpanContext&) = default;
};

// A span named by chance.
SpanId NewSpan(uint64_t chance);
// The first span of a trace that nobody has begun yet, named by chance.
SpanContext NewTrace(const std::array<uint64_t, 3>& chance);

// The context in a `traceparent`, of this version of the format or a later one. Nothing when it is
// malformed: W3C wants such a caller treated as one that sent none.
std::optional<SpanContext> ParseTraceparent(absl::string_view traceparent);

// 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
std::string FormatTraceparent(const SpanContext& context);

// Whether the trace is in the sample that holds the share `ratio` of all traces. Depends on nothing
// else, so services agree without asking, and a smaller sample is part of every larger one.
//
// REQUIRES: 0 <= ratio <= 1.
bool InSample(const TraceId& trace_id, double ratio);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TRACE_CONTEXT_H_
