#ifndef CALLBOARD_LIBS_AGENT_TRACED_RUNNER_H_
#define CALLBOARD_LIBS_AGENT_TRACED_RUNNER_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/ports/task_runner.h"
#include "libs/ports/telemetry.h"

namespace callboard::agent {

// Wraps a runner and emits a span for each run, as a child of the dispatch's span. The span is the
// parent of the spans that the run's process emits. A run without a trace gets no span. When
// telemetry is off, the process gets the dispatch's span as its parent.
class TracedRunner final : public ports::TaskRunner, private ports::RunObserver {
 public:
  // Wraps the runner that `make` returns. `agent`: the agent's name, an attribute of the spans.
  // Returns the error of `make` if that fails.
  static absl::StatusOr<std::unique_ptr<ports::TaskRunner>> Create(
      std::string agent, const ports::Tracing& tracing, const ports::TaskRunnerFactory& make,
      ports::RunObserver& observer);
  ~TracedRunner() override;

  absl::Status Check(const core::RunSpec& spec) const override { return runner_->Check(spec); }
  void Start(ports::RunRequest request) override;
  void Stop(const core::FenceToken& token) override;
  void Kill(const core::FenceToken& token) override;
  void MoveFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) override {
    runner_->AcknowledgeOutput(token, bytes);
  }

 private:
  // A traced run that has not ended.
  struct Run {
    core::SpanContext context;
    core::SpanId parent;
    absl::Time started_at;
    // Monotonic times: of the task's timeout, of the current fence, and of the first request to
    // stop the run.
    absl::Duration timeout_at = absl::InfiniteDuration();
    absl::Duration fence_at = absl::InfiniteDuration();
    absl::Duration stop_requested_at = absl::InfiniteDuration();
  };

  TracedRunner(std::string agent, const ports::Tracing& tracing, ports::RunObserver& observer)
      : agent_(std::move(agent)), tracing_(tracing), observer_(observer) {}

  void RecordStopRequest(const core::FenceToken& token);
  void OnStarted(const core::FenceToken& token, int64_t pid) override {
    observer_.OnStarted(token, pid);
  }
  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override {
    observer_.OnOutput(token, std::move(chunk));
  }
  void OnEnded(const core::FenceToken& token, core::RunResult result) override;
  void Emit(const core::FenceToken& token, const Run& run, const core::RunResult& result);
  void EmitKillGrace(const core::FenceToken& token, const Run& run, const core::RunResult& result,
                     absl::Time ended);

  const std::string agent_;
  const ports::Tracing tracing_;
  ports::RunObserver& observer_;
  std::unique_ptr<ports::TaskRunner> runner_;
  base::Mutex mutex_;
  std::map<core::FenceToken, Run> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_TRACED_RUNNER_H_
