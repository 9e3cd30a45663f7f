#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_SUBPROCESS_RUNNER_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_SUBPROCESS_RUNNER_H_

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/adapters/subprocess_runner/run_loop.h"
#include "libs/adapters/subprocess_runner/run_planner.h"
#include "libs/base/descriptor.h"
#include "libs/base/mutex.h"
#include "libs/ports/clock.h"
#include "libs/ports/task_runner.h"

namespace callboard::adapters {

// Runs tasks as processes, each under a supervisor of its own (supervisor.h), which a launcher
// forks (launcher.h): the `main` of a program with this in it calls MaybeRunSupervisor() first of
// all.
//
// One thread serves all runs. A run has at most 256 KiB of output in memory, and the end of it that
// may become its result.
class SubprocessRunner final : public ports::TaskRunner {
 public:
  // Waits a little for the processes of an agent that had the same folder, says so, kills those
  // that do not end, and removes what they left behind; FAILED_PRECONDITION when that agent is
  // still there. INVALID_ARGUMENT for a command that cannot be run, and for a shell that is not
  // allowed. Logs a warning when there is no space for a run. Lets this process open as many files
  // as it may. `clock`, whose monotonic time is that of adapters::SystemClock, and `watcher`
  // outlive the runner.
  static absl::StatusOr<std::unique_ptr<SubprocessRunner>> Create(SubprocessRunnerOptions options,
                                                                  const ports::Clock& clock,
                                                                  ports::RunWatcher& watcher);
  ~SubprocessRunner() override;

  absl::Status Check(const core::TaskSpec& spec) const override;
  void Start(ports::RunOrder order) override;
  void Stop(const core::FenceToken& token) override;
  void Kill(const core::FenceToken& token) override;
  void SetFence(const core::FenceToken& token, absl::Duration fence_at) override;
  void Delivered(const core::FenceToken& token, uint64_t bytes) override;

 private:
  using Command = std::function<void(RunLoop&)>;

  SubprocessRunner(RunPlanner planner, base::Descriptor lock, base::Descriptor wake);

  void Post(Command command);
  void Loop(RunLoop& loop);

  // Constant after construction.
  const RunPlanner planner_;
  const base::Descriptor lock_;
  const base::Descriptor wake_;

  base::Mutex mutex_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Touched by the thread alone.
  std::unique_ptr<RunLoop> loop_;
  std::thread thread_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_SUBPROCESS_RUNNER_H_
