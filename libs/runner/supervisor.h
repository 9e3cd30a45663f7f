#ifndef CALLBOARD_LIBS_RUNNER_SUPERVISOR_H_
#define CALLBOARD_LIBS_RUNNER_SUPERVISOR_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "libs/base/files.h"
#include "libs/runner/child_processes.h"
#include "libs/runner/run_plan.h"

namespace callboard::runner {

// Runs one task in a separate process, which has no other purpose. It keeps working while the agent
// is suspended. When the agent dies, it kills all processes of the task and exits.
//
// The task is a child of this process and leads a new session. This process is a subreaper: it
// adopts every descendant of the task whose parent is gone. So it finds all of them, whatever
// session, process group or name they have chosen.
//
//   Event                                      What happens to the processes
//   the task ends                              all that are left get SIGKILL
//   stop, timeout or fence                     the process group of the task gets SIGTERM; after
//                                              the grace period, all processes get SIGKILL
//   kill, or the agent is gone                 all get SIGKILL immediately
//
// This process survives a SIGTERM and remembers it, because service managers send one to every
// process of a service. A task that fails after the SIGTERM, with any exit code or signal, was
// ended from outside and is reported as kCancelled. A task that succeeds is still kCompleted.
//
// The task cannot write core files, and cannot gain privileges (for example, with sudo), because
// then it could not be killed. Its soft limit is 1024 open files; the hard limit is the agent's.
// All other limits are the agent's.
class Supervisor {
 public:
  Supervisor(RunPlan plan, base::Descriptor control, base::Descriptor standard_output,
             base::Descriptor standard_error);

  // Runs the task until none of its processes is left, and sends the report. Returns false when the
  // report could not be sent.
  bool Run();

 private:
  enum class Phase { kRunning, kStopping, kKilling };
  // The reason for the end of the task.
  enum class Cause { kExit, kTimeout, kStop, kFence, kAgentGone };

  absl::Status StartTask();
  absl::Status SpawnTask(const std::string& folder, const std::string& program, int input);
  // Returns when no process of the run is left.
  void Supervise();
  void Reap();
  void ReadSignals();
  void SendToAgent(absl::string_view message);
  // Whether the task failed after this process received a SIGTERM.
  bool WasTerminatedFromOutside();
  void ReceiveInstructions();
  void Execute(const Instruction& instruction);
  // Sends SIGTERM to the task, and starts the timer for SIGKILL.
  void Stop(Cause cause);
  void Kill(Cause cause);
  void KillProcesses();

  core::RunResult MakeResult();

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
  Cause cause_ = Cause::kExit;
  // Process id of the task. 0 after it was waited for, because the id may be reused.
  pid_t task_ = 0;
  // Exit status from wait(); null when the task was never started.
  std::optional<int> wait_status_;
  absl::Status start_status_;
  bool has_no_children_ = false;
  // This process received a SIGTERM.
  bool got_sigterm_ = false;
};

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_SUPERVISOR_H_
