#ifndef CALLBOARD_LIBS_RUNNER_NOOP_RUNNER_H_
#define CALLBOARD_LIBS_RUNNER_NOOP_RUNNER_H_

#include "libs/ports/task_runner.h"

namespace callboard::runner {

// Runs nothing: Start() reports every run as completed before it returns. For load tests, which
// measure everything but the work itself. Thread-safe.
class NoopRunner final : public ports::TaskRunner {
 public:
  // `observer` outlives the runner.
  explicit NoopRunner(ports::RunObserver& observer) : observer_(observer) {}

  absl::Status Check(const core::RunSpec& spec) const override;
  void Start(ports::RunRequest request) override;
  // These do nothing, because every run has already ended.
  void Stop(const core::FenceToken& token) override;
  void Kill(const core::FenceToken& token) override;
  void MoveFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) override;

 private:
  ports::RunObserver& observer_;
};

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_NOOP_RUNNER_H_
