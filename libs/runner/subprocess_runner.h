#ifndef CALLBOARD_LIBS_RUNNER_SUBPROCESS_RUNNER_H_
#define CALLBOARD_LIBS_RUNNER_SUBPROCESS_RUNNER_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/files.h"
#include "libs/base/mutex.h"
#include "libs/ports/environment.h"
#include "libs/ports/task_runner.h"
#include "libs/runner/run_loop.h"
#include "libs/runner/run_plan.h"

namespace callboard::runner {

// Runs tasks as processes. Each run has a supervisor process (supervisor.h), which a launcher
// process forks (launcher.h). The `main` of a program that uses this class must call
// MaybeRunLauncher() first.
//
// Thread-safe. One thread serves all runs and calls the observer. Each run buffers at most 256 KiB
// of output, and the end of its output, which may become the result.
class SubprocessRunner final : public ports::TaskRunner {
 public:
  // Takes over the data folder from an agent that used it before: waits some seconds for its
  // processes to end, logs that, kills those that do not end, and removes their files. Returns
  // FAILED_PRECONDITION when that agent is still alive. Returns INVALID_ARGUMENT when the command
  // cannot be executed, and for a shell that is not allowed.
  //
  // Logs a warning when there is no disk space for a run. Raises the limit of open files of this
  // process to the maximum.
  //
  // `clock` and `observer` must outlive the runner. REQUIRES: the monotonic time of `clock` is that
  // of system::SystemClock.
  static absl::StatusOr<std::unique_ptr<SubprocessRunner>> Create(SubprocessRunnerOptions options,
                                                                  const ports::Clock& clock,
                                                                  ports::RunObserver& observer);
  ~SubprocessRunner() override;

  absl::Status Check(const core::RunSpec& spec) const override;
  void Start(ports::RunRequest request) override;
  void Stop(const core::FenceToken& token) override;
  void Kill(const core::FenceToken& token) override;
  void MoveFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) override;

 private:
  using Command = std::function<void(RunLoop&)>;

  SubprocessRunner(RunPlanner planner, base::Descriptor lock, base::Descriptor wake);

  void Post(Command command);
  void RunThread(RunLoop& loop);

  // Constant after construction.
  const RunPlanner planner_;
  const base::Descriptor lock_;
  const base::Descriptor wake_;

  base::Mutex mutex_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Used by the thread only.
  std::unique_ptr<RunLoop> loop_;
  std::thread thread_;
};

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_SUBPROCESS_RUNNER_H_
