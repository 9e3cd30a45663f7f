#ifndef CALLBOARD_LIBS_ADAPTERS_NOOP_RUNNER_NOOP_RUNNER_H_
#define CALLBOARD_LIBS_ADAPTERS_NOOP_RUNNER_NOOP_RUNNER_H_

#include "libs/ports/task_runner.h"

namespace callboard::adapters {

// Runs nothing: every run is completed before Start() returns. For load tests, in which everything
// but the work itself is to be measured.
class NoopRunner final : public ports::TaskRunner {
 public:
  // `watcher` outlives the runner.
  explicit NoopRunner(ports::RunWatcher& watcher) : watcher_(watcher) {}

  absl::Status Check(const core::TaskSpec& spec) const override;
  void Start(ports::RunOrder order) override;
  // Too late for all of them, always.
  void Stop(const core::FenceToken& token) override;
  void Kill(const core::FenceToken& token) override;
  void SetFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void Delivered(const core::FenceToken& token, uint64_t bytes) override;

 private:
  ports::RunWatcher& watcher_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_NOOP_RUNNER_NOOP_RUNNER_H_
