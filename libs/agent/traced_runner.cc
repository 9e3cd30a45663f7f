#include "libs/agent/traced_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "libs/agent/run_end_name.h"
#include "libs/base/status_macros.h"
#include "libs/ports/span_names.h"

namespace callboard::agent {
namespace {

namespace names = ports::span_names;
using End = core::RunResult::End;

}  // namespace

absl::StatusOr<std::unique_ptr<ports::TaskRunner>> TracedRunner::Create(
    std::string agent, const ports::Tracing& tracing, const ports::MakeRunner& make,
    ports::RunWatcher& watcher) {
  auto traced = std::unique_ptr<TracedRunner>(new TracedRunner(std::move(agent), tracing, watcher));
  ASSIGN_OR_RETURN(traced->runner_, make(*traced));
  return traced;
}

TracedRunner::~TracedRunner() {
  // Speaks to the rest until it is gone.
  runner_.reset();
}

void TracedRunner::Start(ports::RunOrder order) {
  const bool is_traced = order.trace != core::SpanContext() && tracing_.telemetry.is_on();
  if (is_traced) order.trace.sampled = tracing_.telemetry.Joins(order.trace);
  if (is_traced && order.trace.sampled) {
    Run run;
    run.context = order.trace;
    run.parent = order.trace.span_id;
    run.context.span_id = core::NewSpan(tracing_.random.Next());
    run.began = tracing_.clock.WallNow();
    run.fence_at = order.fence_at;
    if (order.spec->timeout > absl::ZeroDuration()) {
      run.times_out = tracing_.clock.MonotonicNow() + order.spec->timeout;
    }
    order.trace = run.context;
    base::MutexLock lock(mutex_);
    runs_[order.token] = run;
  }
  runner_->Start(std::move(order));
}

void TracedRunner::Stop(const core::FenceToken& token) {
  NoteStopped(token);
  runner_->Stop(token);
}

void TracedRunner::Kill(const core::FenceToken& token) {
  NoteStopped(token);
  runner_->Kill(token);
}

void TracedRunner::NoteStopped(const core::FenceToken& token) {
  base::MutexLock lock(mutex_);
  const auto run = runs_.find(token);
  if (run == runs_.end()) return;
  run->second.stopped = std::min(run->second.stopped, tracing_.clock.MonotonicNow());
}

void TracedRunner::SetFence(const core::FenceToken& token, absl::Duration fence_at) {
  {
    base::MutexLock lock(mutex_);
    const auto run = runs_.find(token);
    // One that has passed cannot be taken back.
    if (run != runs_.end() && run->second.fence_at > tracing_.clock.MonotonicNow()) {
      run->second.fence_at = fence_at;
    }
  }
  runner_->SetFence(token, fence_at);
}

void TracedRunner::OnEnded(const core::FenceToken& token, core::RunResult result) {
  std::optional<Run> run;
  {
    base::MutexLock lock(mutex_);
    if (auto node = runs_.extract(token); !node.empty()) run = node.mapped();
  }
  if (run.has_value() && tracing_.telemetry.Wants(run->context)) Emit(token, *run, result);
  watcher_.OnEnded(token, std::move(result));
}

void TracedRunner::Emit(const core::FenceToken& token, const Run& run,
                        const core::RunResult& result) {
  const absl::Time now = tracing_.clock.WallNow();
  // What a run says of its failure may be anything.
  const absl::Status status = result.end == End::kCompleted ? absl::OkStatus()
                              : result.end == End::kCancelled
                                  ? absl::CancelledError(Name(result.end))
                                  : absl::UnknownError(Name(result.end));
  EmitGrace(token, run, result, now);
  ports::FinishedSpan span = {
      .name = names::kRun,
      .kind = ports::SpanKind::kConsumer,
      .context = run.context,
      .parent = run.parent,
      .start = run.began,
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

void TracedRunner::EmitGrace(const core::FenceToken& token, const Run& run,
                             const core::RunResult& result, absl::Time ended) {
  // What ends by itself is asked too late, if at all; of what was stopped before it began there is
  // no process that could have ended.
  const bool was_asked = result.end == End::kTimedOut || result.end == End::kCancelled;
  const bool ran = result.exit_code.has_value() || !result.signal.empty();
  if (!was_asked || !ran) return;
  const absl::Duration asked =
      result.end == End::kTimedOut ? run.times_out : std::min(run.stopped, run.fence_at);
  const absl::Duration lasted = tracing_.clock.MonotonicNow() - asked;
  // Somebody else's time-out, or an end of the agent.
  if (lasted < absl::ZeroDuration()) return;
  ports::FinishedSpan grace = {
      .name = names::kKillGrace,
      .context = run.context,
      .parent = run.context.span_id,
      .start = ended - lasted,
      .end = ended,
      .attributes = {{names::kMessagingSystem, names::kMessagingSystemValue},
                     {names::kMessageId, core::ToString(token.queue_id)},
                     {names::kTaskId, core::TaskIdText(token.queue_id, token.dispatch)}}};
  grace.context.span_id = core::NewSpan(tracing_.random.Next());
  tracing_.telemetry.Emit(std::move(grace));
}

}  // namespace callboard::agent
