#ifndef CALLBOARD_LIBS_AGENT_TRACED_RUNNER_H_
#define CALLBOARD_LIBS_AGENT_TRACED_RUNNER_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/ports/task_runner.h"
#include "libs/ports/tracing.h"

namespace callboard::agent {

// A runner whose runs are spans, each part of the dispatch it belongs to; its process is part of
// it. Runs that are part of no trace are none; where nobody collects spans, a process is part of
// the dispatch.
class TracedRunner final : public ports::TaskRunner, private ports::RunWatcher {
 public:
  // Around the runner that `make` makes, on behalf of the agent of that name. That runner's error
  // when there is none to be had.
  static absl::StatusOr<std::unique_ptr<ports::TaskRunner>> Create(std::string agent,
                                                                   const ports::Tracing& tracing,
                                                                   const ports::MakeRunner& make,
                                                                   ports::RunWatcher& watcher);
  ~TracedRunner() override;

  absl::Status Check(const core::TaskSpec& spec) const override { return runner_->Check(spec); }
  void Start(ports::RunOrder order) override;
  void Stop(const core::FenceToken& token) override;
  void Kill(const core::FenceToken& token) override;
  void SetFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void Delivered(const core::FenceToken& token, uint64_t bytes) override {
    runner_->Delivered(token, bytes);
  }

 private:
  // A run that has begun.
  struct Run {
    core::SpanContext context;
    core::SpanId parent;
    absl::Time began;
    // When it will have run for too long, when it is to be killed unless that is put off, and when
    // somebody asked for its end. Monotonic, as the runner counts; never, where nobody said.
    absl::Duration times_out = absl::InfiniteDuration();
    absl::Duration fence_at = absl::InfiniteDuration();
    absl::Duration stopped = absl::InfiniteDuration();
  };

  TracedRunner(std::string agent, const ports::Tracing& tracing, ports::RunWatcher& watcher)
      : agent_(std::move(agent)), tracing_(tracing), watcher_(watcher) {}

  // When somebody first asked for its end.
  void NoteStopped(const core::FenceToken& token);
  void OnStarted(const core::FenceToken& token, int64_t pid) override {
    watcher_.OnStarted(token, pid);
  }
  void OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) override {
    watcher_.OnOutput(token, std::move(chunk));
  }
  void OnEnded(const core::FenceToken& token, core::RunResult result) override;
  void Emit(const core::FenceToken& token, const Run& run, const core::RunResult& result);
  void EmitGrace(const core::FenceToken& token, const Run& run, const core::RunResult& result,
                 absl::Time ended);

  const std::string agent_;
  const ports::Tracing tracing_;
  ports::RunWatcher& watcher_;
  std::unique_ptr<ports::TaskRunner> runner_;
  base::Mutex mutex_;
  std::map<core::FenceToken, Run> runs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_TRACED_RUNNER_H_
