#ifndef CALLBOARD_LIBS_ADAPTERS_NOOP_RUNNER_NOOP_RUNNER_H_
#define CALLBOARD_LIBS_ADAPTERS_NOOP_RUNNER_NOOP_RUNNER_H_

#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/ports/task_runner.h"

namespace callboard::adapters {

// Runs nothing: every run is completed at once, on a thread of the runner's own. For load tests, in
// which everything but the work itself is to be measured.
class NoopRunner final : public ports::TaskRunner {
 public:
  // `watcher` outlives the runner.
  explicit NoopRunner(ports::RunWatcher& watcher);
  ~NoopRunner() override;

  absl::Status Check(const core::TaskSpec& spec) const override;
  void Start(ports::RunOrder order) override;
  // Too late for all of them, always.
  void Stop(const core::FenceToken& token) override;
  void SetFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void Delivered(const core::FenceToken& token, uint64_t bytes) override;

 private:
  void EndRuns();

  ports::RunWatcher& watcher_;

  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<core::FenceToken> started_ ABSL_GUARDED_BY(mutex_);

  // Last, because it uses all of the above.
  std::thread thread_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_NOOP_RUNNER_NOOP_RUNNER_H_
