#include "libs/server/call.h"

#include <grpc/support/time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/rpc/status.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/ports/telemetry.h"
#include "libs/server/bidi_call.h"

namespace callboard::server {

std::optional<core::SpanContext> ExtractSpanContext(const grpc::CallbackServerContext& context) {
  const auto found = context.client_metadata().find(ports::kTraceparent);
  if (found == context.client_metadata().end()) return std::nullopt;
  return core::ParseTraceparent(absl::string_view(found->second.data(), found->second.size()));
}

CallSpan CallTracer::Begin(const std::optional<core::SpanContext>& parent) const {
  if (!tracing_.telemetry.enabled()) return {.context = parent.value_or(core::SpanContext())};
  // The sampling decision is made here. All spans below this one follow its `sampled` flag.
  const absl::Time now = tracing_.clock.WallNow();
  if (!parent.has_value()) return {.context = ports::BeginTrace(tracing_), .began = now};
  const core::SpanContext context = {.trace_id = parent->trace_id,
                                     .span_id = core::NewSpan(tracing_.random.Next()),
                                     .sampled = tracing_.telemetry.ShouldJoin(*parent)};
  return {.context = context, .parent = parent, .began = now};
}

void CallTracer::End(const CallSpan& span, absl::string_view method,
                     const absl::Status& status) const {
  if (!tracing_.telemetry.ShouldRecord(span.context)) return;
  ports::FinishedSpan finished = ports::RpcSpan(ports::SpanKind::kServer, method, status);
  finished.context = span.context;
  if (span.parent.has_value()) finished.parent = span.parent->span_id;
  finished.start = span.began;
  finished.end = tracing_.clock.WallNow();
  tracing_.telemetry.Emit(std::move(finished));
}

}  // namespace callboard::server

namespace callboard::server::internal {

std::optional<absl::Duration> ServerDeadline(const grpc::CallbackServerContext& context,
                                             absl::Duration deadline_max) {
  const gpr_timespec left = gpr_convert_clock_type(context.raw_deadline(), GPR_TIMESPAN);
  // gRPC ends a call at the caller's deadline by itself.
  if (gpr_time_to_millis(left) <= absl::ToInt64Milliseconds(deadline_max)) return std::nullopt;
  return deadline_max;
}

absl::Status DeadlineError(absl::Duration deadline_max) {
  return base::WithReason(absl::DeadlineExceededError(
                              absl::StrCat("no answer within ", absl::FormatDuration(deadline_max),
                                           "; whether the call took effect is unknown")),
                          "DEADLINE_EXCEEDED");
}

absl::Status CallerLeftError() { return absl::CancelledError("the caller cancelled the call"); }

absl::Status SlowReaderError() {
  return base::WithReason(
      absl::ResourceExhaustedError("the reader of the stream is too slow, and the buffer of unread "
                                   "messages is full; open the stream again"),
      "SLOW_READER");
}

void AbandonHook::Set(std::function<void()> hook) {
  {
    base::MutexLock lock(mutex_);
    if (!outcome_.has_value()) {
      hook_ = std::move(hook);
      return;
    }
    if (*outcome_ == CallOutcome::kAnswered) return;
  }
  hook();
}

void AbandonHook::End(CallOutcome outcome) {
  std::function<void()> hook;
  {
    base::MutexLock lock(mutex_);
    CHECK(!outcome_.has_value());
    outcome_ = outcome;
    hook = std::exchange(hook_, nullptr);
  }
  if (outcome == CallOutcome::kAbandoned && hook) hook();
}

// clang's thread-safety analysis sees templates only where they are instantiated.
template class UnaryReactor<google::rpc::Status>;
template class StreamReactor<google::rpc::Status>;
template class BidiReactor<google::rpc::Status, google::rpc::Status>;

}  // namespace callboard::server::internal
