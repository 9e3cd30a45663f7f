#include "libs/scheduler/director_link.h"

#include <string>

#include "libs/base/error.h"
#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"

namespace callboard::scheduler {

SubmitAnswer ClassifyAnswer(const absl::Status& status) {
  const std::string reason = status.ok() ? "" : base::GetErrorDetails(status).reason;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return SubmitAnswer::kAccepted;
    case absl::StatusCode::kAlreadyExists:
      return SubmitAnswer::kIdReused;
    case absl::StatusCode::kFailedPrecondition:
      return reason == "OVERLAP" ? SubmitAnswer::kOverlap : SubmitAnswer::kRejected;
    case absl::StatusCode::kResourceExhausted:
      if (reason == "QUEUE_FULL" || reason == "TOO_MANY_WAITERS") return SubmitAnswer::kFull;
      return reason == "STORE_FULL" ? SubmitAnswer::kTryLater : SubmitAnswer::kUnknown;
    case absl::StatusCode::kUnavailable:
      if (reason == kDirectorUnreachable) return SubmitAnswer::kNotSent;
      if (reason == "QUEUE_DRAINING") return SubmitAnswer::kDraining;
      return reason.empty() || reason == "OUTCOME_UNKNOWN" ? SubmitAnswer::kUnknown
                                                           : SubmitAnswer::kTryLater;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return SubmitAnswer::kRejected;
    default:
      return SubmitAnswer::kUnknown;
  }
}

LookupAnswer ClassifyLookup(const absl::Status& status) {
  if (status.ok()) return LookupAnswer::kFound;
  // Without the reason the answer is not one of a director that knows the call.
  const bool is_unused = status.code() == absl::StatusCode::kNotFound &&
                         base::GetErrorDetails(status).reason == "TASK_NOT_FOUND";
  return is_unused ? LookupAnswer::kUnused : LookupAnswer::kUnknown;
}

std::string QueueIdFrom(const absl::Status& status) {
  const base::ErrorDetails details = base::GetErrorDetails(status);
  const auto found = details.metadata.find("queue_id");
  return found == details.metadata.end() ? "" : found->second;
}

namespace names = ports::span_names;

void TracedLink::Submit(const core::JobSubmission& submission, Reply<AcceptedTask> reply) {
  auto [traced, end] = StartSpan(submission, std::move(reply));
  link_.Submit(traced, std::move(end));
}

void TracedLink::StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                             Reply<AcceptedTask> reply) {
  auto [traced, end] = StartSpan(submission, std::move(reply));
  link_.StartDirect(agent_url, traced, std::move(end));
}

core::SpanContext TracedLink::NewSpanContext(const std::string& request_id) const {
  core::SpanContext fire = ports::BeginTrace(tracing_);
  if (request_id.empty()) return fire;
  fire.trace_id = core::FireTraceId(director_, request_id);
  fire.sampled = tracing_.telemetry.ShouldSample(fire.trace_id);
  return fire;
}

std::pair<core::JobSubmission, DirectorLink::Reply<AcceptedTask>> TracedLink::StartSpan(
    const core::JobSubmission& submission, Reply<AcceptedTask> reply) {
  if (!tracing_.telemetry.enabled()) return {submission, std::move(reply)};
  core::JobSubmission traced = submission;
  traced.trace = NewSpanContext(submission.request_id);
  const auto end = [this, fire = traced.trace, job = submission.job,
                    began = tracing_.clock.WallNow(),
                    reply](const absl::StatusOr<AcceptedTask>& accepted) {
    if (!tracing_.telemetry.ShouldRecord(fire)) return reply(accepted);
    ports::FinishedSpan span = {
        .name = names::kFire,
        .kind = ports::SpanKind::kProducer,
        .context = fire,
        .start = began,
        .end = tracing_.clock.WallNow(),
        .attributes = {{names::kMessagingSystem, names::kMessagingSystemValue},
                       {names::kOperation, "fire"},
                       {names::kOperationType, names::kTypeSend},
                       {names::kDestination, names::kDestinationValue},
                       {names::kJob, job}}};
    if (accepted.ok()) {
      span.attributes.push_back({names::kMessageId, accepted->queue_id});
    } else {
      const absl::StatusCode code = accepted.status().code();
      span.status = {code, absl::StatusCodeToString(code)};
      span.attributes.push_back({names::kErrorType, ports::SpanErrorType(accepted.status())});
    }
    tracing_.telemetry.Emit(std::move(span));
    reply(accepted);
  };
  return {std::move(traced), end};
}

}  // namespace callboard::scheduler
