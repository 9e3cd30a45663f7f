#include "libs/agent/traced_runner.h"

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
  if (order.trace.sampled && order.trace != core::SpanContext()) {
    Run run;
    run.context = order.trace;
    run.parent = order.trace.span_id;
    run.context.span_id = core::NewSpan(tracing_.random.Next());
    run.began = tracing_.clock.WallNow();
    if (order.spec->timeout > absl::ZeroDuration()) run.times_out = run.began + order.spec->timeout;
    order.trace = run.context;
    base::MutexLock lock(mutex_);
    runs_[order.token] = run;
  }
  runner_->Start(std::move(order));
}

void TracedRunner::Stop(const core::FenceToken& token) {
  {
    base::MutexLock lock(mutex_);
    const auto run = runs_.find(token);
    if (run != runs_.end() && !run->second.stopped.has_value()) {
      run->second.stopped = tracing_.clock.WallNow();
    }
  }
  runner_->Stop(token);
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
  std::optional<absl::Time> stopped = run.stopped;
  if (result.end == End::kTimedOut && !stopped.has_value()) stopped = run.times_out;
  if (stopped.has_value()) {
    ports::FinishedSpan grace = {.name = names::kKillGrace,
                                 .context = run.context,
                                 .parent = run.context.span_id,
                                 .start = *stopped,
                                 .end = now};
    grace.context.span_id = core::NewSpan(tracing_.random.Next());
    tracing_.telemetry.Emit(std::move(grace));
  }
  ports::FinishedSpan span = {
      .name = names::kRun,
      .kind = ports::SpanKind::kConsumer,
      .context = run.context,
      .parent = run.parent,
      .start = run.began,
      .end = now,
      .attributes = {{names::kMessagingSystem, names::kMessagingSystemValue},
                     {names::kMessageId, core::ToString(token.queue_id)},
                     {names::kTaskId, core::TaskIdText(token.queue_id, token.dispatch)},
                     {names::kAgent, agent_},
                     {names::kRunEnd, Name(result.end)}},
      .status = status};
  if (result.exit_code.has_value()) {
    span.attributes.push_back({names::kExitCode, int64_t{*result.exit_code}});
  }
  if (!result.signal.empty()) span.attributes.push_back({names::kSignal, result.signal});
  tracing_.telemetry.Emit(std::move(span));
}

}  // namespace callboard::agent
