#ifndef CALLBOARD_LIBS_PORTS_TRACING_H_
#define CALLBOARD_LIBS_PORTS_TRACING_H_

#include "libs/core/trace_context.h"
#include "libs/ports/clock.h"
#include "libs/ports/random.h"
#include "libs/ports/telemetry.h"

namespace callboard::ports {

// W3C's key of a call's metadata.
inline constexpr char kTraceparent[] = "traceparent";

// What it takes to make spans. All outlive whoever makes them.
struct Tracing {
  Telemetry& telemetry;
  const Clock& clock;
  Random& random;
};

// The first span of a trace that begins here; it says whether the trace is kept.
inline core::SpanContext BeginTrace(const Tracing& tracing) {
  Random& random = tracing.random;
  core::SpanContext first = core::NewTrace({random.Next(), random.Next(), random.Next()});
  first.sampled = tracing.telemetry.Keeps(first.trace_id);
  return first;
}

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_TRACING_H_
