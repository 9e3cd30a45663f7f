#include "libs/agent/traced_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "libs/agent/observer.h"
#include "libs/base/error.h"
#include "libs/ports/telemetry.h"

namespace callboard::agent {
namespace {

namespace names = ports::span_names;
using End = core::RunResult::End;

}  // namespace

absl::StatusOr<std::unique_ptr<ports::TaskRunner>> TracedRunner::Create(
    std::string agent, const ports::Tracing& tracing, const ports::TaskRunnerFactory& make,
    ports::RunObserver& observer) {
  auto traced =
      std::unique_ptr<TracedRunner>(new TracedRunner(std::move(agent), tracing, observer));
  ASSIGN_OR_RETURN(traced->runner_, make(*traced));
  return traced;
}

TracedRunner::~TracedRunner() {
  // The runner calls this object until it is destroyed.
  runner_.reset();
}

void TracedRunner::Start(ports::RunRequest request) {
  const bool is_traced = request.trace != core::SpanContext() && tracing_.telemetry.enabled();
  if (is_traced) request.trace.sampled = tracing_.telemetry.ShouldJoin(request.trace);
  if (is_traced && request.trace.sampled) {
    Run run;
    run.context = request.trace;
    run.parent = request.trace.span_id;
    run.context.span_id = core::NewSpan(tracing_.random.Next());
    run.started_at = tracing_.clock.WallNow();
    run.fence_at = request.fence_at;
    if (request.spec->timeout > absl::ZeroDuration()) {
      run.timeout_at = tracing_.clock.MonotonicNow() + request.spec->timeout;
    }
    request.trace = run.context;
    base::MutexLock lock(mutex_);
    runs_[request.token] = run;
  }
  runner_->Start(std::move(request));
}

void TracedRunner::Stop(const core::FenceToken& token) {
  RecordStopRequest(token);
  runner_->Stop(token);
}

void TracedRunner::Kill(const core::FenceToken& token) {
  RecordStopRequest(token);
  runner_->Kill(token);
}

void TracedRunner::RecordStopRequest(const core::FenceToken& token) {
  base::MutexLock lock(mutex_);
  const auto run = runs_.find(token);
  if (run == runs_.end()) return;
  run->second.stop_requested_at =
      std::min(run->second.stop_requested_at, tracing_.clock.MonotonicNow());
}

void TracedRunner::MoveFence(const core::FenceToken& token, absl::Duration fence_at) {
  {
    base::MutexLock lock(mutex_);
    const auto run = runs_.find(token);
    // A fence that has passed cannot be moved.
    if (run != runs_.end() && run->second.fence_at > tracing_.clock.MonotonicNow()) {
      run->second.fence_at = fence_at;
    }
  }
  runner_->MoveFence(token, fence_at);
}

void TracedRunner::OnEnded(const core::FenceToken& token, core::RunResult result) {
  std::optional<Run> run;
  {
    base::MutexLock lock(mutex_);
    if (auto node = runs_.extract(token); !node.empty()) run = node.mapped();
  }
  if (run.has_value() && tracing_.telemetry.ShouldRecord(run->context)) Emit(token, *run, result);
  observer_.OnEnded(token, std::move(result));
}

void TracedRunner::Emit(const core::FenceToken& token, const Run& run,
                        const core::RunResult& result) {
  const absl::Time now = tracing_.clock.WallNow();
  // The run's own error text may contain anything, so it does not go into the span.
  const absl::Status status = result.end == End::kCompleted ? absl::OkStatus()
                              : result.end == End::kCancelled
                                  ? absl::CancelledError(Name(result.end))
                                  : absl::UnknownError(Name(result.end));
  EmitKillGrace(token, run, result, now);
  ports::FinishedSpan span = {
      .name = names::kRun,
      .kind = ports::SpanKind::kConsumer,
      .context = run.context,
      .parent = run.parent,
      .start = run.started_at,
      .end = now,
      .attributes = {{names::kMessagingSystem, names::kMessagingSystemValue},
                     {names::kMessageId, core::ToString(token.queue_id)},
                     {names::kOperation, "run"},
                     {names::kOperationType, names::kTypeProcess},
                     {names::kDestination, names::kDestinationValue},
                     {names::kTaskId, core::TaskIdText(token.queue_id, token.dispatch)},
                     {names::kAgent, agent_},
                     {names::kRunEnd, Name(result.end)}},
      .status = status};
  if (result.exit_code.has_value()) {
    span.attributes.push_back({names::kExitCode, int64_t{*result.exit_code}});
  }
  if (!result.signal.empty()) span.attributes.push_back({names::kSignal, result.signal});
  if (!status.ok()) span.attributes.push_back({names::kErrorType, Name(result.end)});
  tracing_.telemetry.Emit(std::move(span));
}

void TracedRunner::EmitKillGrace(const core::FenceToken& token, const Run& run,
                                 const core::RunResult& result, absl::Time ended) {
  // A kill grace needs a process that was asked to end. A run that ended by itself was not asked,
  // or too late; a run that was stopped before its process started had no process.
  const bool was_asked = result.end == End::kTimedOut || result.end == End::kCancelled;
  const bool ran = result.exit_code.has_value() || !result.signal.empty();
  if (!was_asked || !ran) return;
  const absl::Duration asked_at =
      result.end == End::kTimedOut ? run.timeout_at : std::min(run.stop_requested_at, run.fence_at);
  const absl::Duration grace_used = tracing_.clock.MonotonicNow() - asked_at;
  // The agent did not ask for this end: it came from a timeout inside the command, or from the
  // destruction of the runner.
  if (grace_used < absl::ZeroDuration()) return;
  ports::FinishedSpan grace = {
      .name = names::kKillGrace,
      .context = run.context,
      .parent = run.context.span_id,
      .start = ended - grace_used,
      .end = ended,
      .attributes = {{names::kMessagingSystem, names::kMessagingSystemValue},
                     {names::kMessageId, core::ToString(token.queue_id)},
                     {names::kTaskId, core::TaskIdText(token.queue_id, token.dispatch)}}};
  grace.context.span_id = core::NewSpan(tracing_.random.Next());
  tracing_.telemetry.Emit(std::move(grace));
}

}  // namespace callboard::agent
