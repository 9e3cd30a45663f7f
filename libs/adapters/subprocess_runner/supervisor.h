#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_SUPERVISOR_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_SUPERVISOR_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "libs/adapters/subprocess_runner/boot_timer.h"
#include "libs/adapters/subprocess_runner/run_plan.h"
#include "libs/base/descriptor.h"

namespace callboard::adapters {

// Runs one task, and is the whole of a process that has nothing else to do: it goes on while the
// agent is stopped, and outlives it just long enough to kill what the task started.
//
// The task runs in a session of its own, as the child of this process, to which the kernel gives
// all its descendants whose parents are gone: so all of them are found, whatever session, group or
// name they took. When the task has ended they are killed. When it is stopped, runs out of time or
// past its fence, its process group gets SIGTERM, and after the grace all of them get SIGKILL; when
// the agent is gone, at once.
//
// A SIGTERM to this process is only noted: service managers send one to every process of a service.
// A task that fails afterwards, whatever its exit code or signal, has been ended from outside and
// is reported as kCancelled. One that succeeds is kCompleted.
//
// Limits of the task: no core files; 1024 open files, or more when it asks, up to what the agent
// may have; no new privileges, as through sudo: else it could not be killed. The rest is the
// agent's.
class Supervisor {
 public:
  Supervisor(RunPlan plan, base::Descriptor control, base::Descriptor standard_output,
             base::Descriptor standard_error);

  // Until nothing of the run is left, which it reports. False when it could not report.
  bool Run();

 private:
  enum class Phase { kRunning, kStopping, kKilling };
  // What ended the task.
  enum class Cause { kItself, kTimeout, kStop, kFence, kAgentGone };

  absl::Status StartTask();
  absl::Status SpawnTask(const std::string& folder, const std::string& program, int input);
  void Watch();
  void Reap();
  void ReadSignals();
  void Tell(absl::string_view message);
  // The task failed, and this process got a SIGTERM before that.
  bool WasTerminatedFromOutside();
  void FollowInstructions();
  void Follow(const Instruction& instruction);
  // SIGTERM, then SIGKILL when `kill_` runs out.
  void Stop(Cause cause);
  void Kill(Cause cause);
  void KillProcesses();

  core::RunResult Result();

  RunPlan plan_;
  // Closed when the agent is gone.
  base::Descriptor control_;
  base::Descriptor output_;
  base::Descriptor error_;
  base::Descriptor signals_;
  BootTimer fence_;
  BootTimer timeout_;
  BootTimer kill_;

  Phase phase_ = Phase::kRunning;
  Cause cause_ = Cause::kItself;
  // Until it was waited for; its number may be another's afterwards.
  pid_t task_ = 0;
  // As wait() gives it; nothing when the task was never started.
  std::optional<int> status_;
  absl::Status start_;
  bool is_alone_ = false;
  // This process got a SIGTERM.
  bool got_sigterm_ = false;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_SUPERVISOR_H_
