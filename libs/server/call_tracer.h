#ifndef CALLBOARD_LIBS_SERVER_CALL_TRACER_H_
#define CALLBOARD_LIBS_SERVER_CALL_TRACER_H_

#include <grpcpp/server_context.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/trace_context.h"
#include "libs/ports/tracing.h"

namespace callboard::server {

// A call as a span that has begun.
struct CallSpan {
  // What the work that the call asks for is part of: the call's own span, or, where nobody collects
  // spans, its caller's. None when there is neither.
  core::SpanContext context = {};
  // The caller's.
  std::optional<core::SpanContext> parent = {};
  absl::Time began = {};
};

// The caller's span, by the `traceparent` in the call's metadata.
std::optional<core::SpanContext> TraceOf(const grpc::CallbackServerContext& context);

// Makes spans of calls. Thread-safe.
class CallTracer {
 public:
  explicit CallTracer(const ports::Tracing& tracing) : tracing_(tracing) {}

  // A part of its caller's trace, or the first span of a new one.
  CallSpan Begin(const std::optional<core::SpanContext>& parent) const;
  // `method`: callboard.v1.QueueService/SubmitTask
  void End(const CallSpan& span, absl::string_view method, const absl::Status& status) const;

 private:
  const ports::Tracing tracing_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_CALL_TRACER_H_
