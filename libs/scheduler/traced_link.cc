#include "libs/scheduler/traced_link.h"

#include "libs/core/task_spans.h"
#include "libs/ports/rpc_span.h"
#include "libs/ports/span_names.h"

namespace callboard::scheduler {

namespace names = ports::span_names;

void TracedLink::Submit(const core::Submission& submission, Reply<Accepted> reply) {
  auto [traced, end] = Fire(submission, std::move(reply));
  link_.Submit(traced, std::move(end));
}

void TracedLink::StartDirect(const std::string& agent_url, const core::Submission& submission,
                             Reply<Accepted> reply) {
  auto [traced, end] = Fire(submission, std::move(reply));
  link_.StartDirect(agent_url, traced, std::move(end));
}

core::SpanContext TracedLink::BeginFire(const std::string& request_id) const {
  core::SpanContext fire = ports::BeginTrace(tracing_);
  if (request_id.empty()) return fire;
  fire.trace_id = core::FireTraceOf(director_, request_id);
  fire.sampled = tracing_.telemetry.Keeps(fire.trace_id);
  return fire;
}

std::pair<core::Submission, DirectorLink::Reply<Accepted>> TracedLink::Fire(
    const core::Submission& submission, Reply<Accepted> reply) {
  // A question fires nothing.
  if (!tracing_.telemetry.is_on() || submission.validate_only)
    return {submission, std::move(reply)};
  core::Submission traced = submission;
  traced.trace = BeginFire(submission.spec.request_id);
  const auto end = [this, fire = traced.trace, job = submission.spec.source_job,
                    began = tracing_.clock.WallNow(),
                    reply](const absl::StatusOr<Accepted>& accepted) {
    if (!tracing_.telemetry.Wants(fire)) return reply(accepted);
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
      span.attributes.push_back({names::kErrorType, ports::ErrorTypeOf(accepted.status())});
    }
    tracing_.telemetry.Emit(std::move(span));
    reply(accepted);
  };
  return {std::move(traced), end};
}

}  // namespace callboard::scheduler
