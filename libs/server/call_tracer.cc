#include "libs/server/call_tracer.h"

#include <utility>

#include "libs/ports/rpc_span.h"

namespace callboard::server {

std::optional<core::SpanContext> TraceOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(ports::kTraceparent);
  if (found == context.client_metadata().end()) return std::nullopt;
  return core::ParseTraceparent(absl::string_view(found->second.data(), found->second.size()));
}

CallSpan CallTracer::Begin(const std::optional<core::SpanContext>& parent) const {
  if (!tracing_.telemetry.is_on()) return {.context = parent.value_or(core::SpanContext())};
  // Whether it is kept is decided here, once; all that follows from the call does as it is told.
  const absl::Time now = tracing_.clock.WallNow();
  if (!parent.has_value()) return {.context = ports::BeginTrace(tracing_), .began = now};
  const core::SpanContext context = {.trace_id = parent->trace_id,
                                     .span_id = core::NewSpan(tracing_.random.Next()),
                                     .sampled = tracing_.telemetry.Joins(*parent)};
  return {.context = context, .parent = parent, .began = now};
}

void CallTracer::End(const CallSpan& span, absl::string_view method,
                     const absl::Status& status) const {
  if (!tracing_.telemetry.Wants(span.context)) return;
  ports::FinishedSpan finished = ports::RpcSpan(ports::SpanKind::kServer, method, status);
  finished.context = span.context;
  if (span.parent.has_value()) finished.parent = span.parent->span_id;
  finished.start = span.began;
  finished.end = tracing_.clock.WallNow();
  tracing_.telemetry.Emit(std::move(finished));
}

}  // namespace callboard::server
