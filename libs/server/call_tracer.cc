#include "libs/server/call_tracer.h"

#include <utility>

#include "libs/ports/rpc_span.h"

namespace callboard::server {

std::optional<core::SpanContext> TraceOf(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find("traceparent");
  if (found == context.client_metadata().end()) return std::nullopt;
  return core::ParseTraceparent(absl::string_view(found->second.data(), found->second.size()));
}

CallSpan CallTracer::Begin(const std::optional<core::SpanContext>& parent) const {
  if (!telemetry_.is_on()) return {.context = parent.value_or(core::SpanContext())};
  CallSpan span = {
      .context = core::NewTrace({random_.Next(), random_.Next(), random_.Next()}),
      .parent = parent,
      .began = clock_.WallNow(),
  };
  if (parent.has_value()) span.context.trace_id = parent->trace_id;
  // Decided here, once; all that follows from the call does as it is told.
  const bool by_caller = !parent.has_value() || parent->sampled;
  span.context.sampled = by_caller && telemetry_.Keeps(span.context.trace_id);
  return span;
}

void CallTracer::End(const CallSpan& span, absl::string_view method,
                     const absl::Status& status) const {
  if (!telemetry_.Wants(span.context)) return;
  ports::FinishedSpan finished = ports::RpcSpan(ports::SpanKind::kServer, method, status.code());
  finished.context = span.context;
  if (span.parent.has_value()) finished.parent = span.parent->span_id;
  finished.start = span.began;
  finished.end = clock_.WallNow();
  telemetry_.Emit(std::move(finished));
}

}  // namespace callboard::server
