#ifndef CALLBOARD_LIBS_RUNNER_RUN_LOOP_H_
#define CALLBOARD_LIBS_RUNNER_RUN_LOOP_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/base/files.h"
#include "libs/ports/environment.h"
#include "libs/ports/task_runner.h"
#include "libs/runner/launcher.h"
#include "libs/runner/run_files.h"
#include "libs/runner/run_plan.h"

namespace callboard::runner {

// Serves all runs of a runner in one thread: starts them, reads their output, and reports their
// ends to the observer. Blocks only while it waits for its descriptors. It does not access the
// disk: supervisors do all work that may take long.
//
// A run begins as a message to the launcher, which forks a supervisor (launcher.h). The loop then
// talks to the supervisor through the control socket of the run, and reads the output of the task
// from two pipes. A run ends in one of three ways:
//   - The supervisor sends its report.
//   - The supervisor dies without a report. The launcher kills the processes that it left behind
//     and tells the loop. A second supervisor, with an empty plan, then removes the files of the
//     run (`is_cleanup`), and the run ends with `failure_result`.
//   - The supervisor misses its deadline. The loop kills the processes of the task and then the
//     supervisor, whose death is handled as above.
//
// The deadlines exist because supervisors and the launcher have the same user as the tasks, so a
// task can suspend them. A supervisor is killed with all its descendants when it has not ended its
// run by kill_grace + kSupervisorSlack after the stop, timeout or fence. A launcher that does not
// reply to a ping within kLauncherAnswerMax is killed and replaced; its supervisors continue.
//
// Not thread-safe.
class RunLoop {
 public:
  struct Deps {
    const RunPlanner& planner;
    const ports::Clock& clock;
    ports::RunObserver& observer;
    // Lock file that launchers and supervisors inherit.
    const base::Descriptor& lock;
    // Environment of launchers.
    std::vector<std::string> environment;
    // Called when the launcher was replaced, with the supervisors that continue without the old
    // one.
    std::function<void(pid_t launcher, const std::set<pid_t>& supervisors)> on_launcher;
  };

  static constexpr absl::Duration kSupervisorSlack = absl::Seconds(2);
  static constexpr absl::Duration kLauncherAnswerMax = absl::Seconds(3);

  // All references in `deps` must outlive the loop.
  RunLoop(Deps deps, LauncherLink launcher, int wake);

  void Start(const ports::RunRequest& request);
  void SendInstruction(const core::FenceToken& token, const Instruction& instruction);
  void AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes);
  void KillAll();

  // Waits until `wake` is readable, a descriptor of a run or the launcher is ready, or a timer
  // expires; then handles these events.
  void RunOnce();

  bool empty() const { return runs_.empty(); }

 private:
  struct Run {
    core::FenceToken token;
    RunFolders folders;
    // Closed when the supervisor is dead.
    base::Descriptor control = {};
    std::array<base::Descriptor, 2> outputs = {};
    OutputLog log = {};
    // Key of the run in `cuts_due_`; infinite when it is not there.
    absl::Duration due_at = absl::InfiniteDuration();
    // Generation of the launcher that forked, or will fork, the supervisor.
    uint64_t launcher_generation = 0;
    // Process id of the supervisor; 0 until the launcher has sent it.
    pid_t supervisor = 0;
    absl::Duration timeout = absl::InfiniteDuration();
    absl::Duration kill_grace = {};
    // Times at which the supervisor has to stop the task, by reason.
    absl::Duration times_out_at = absl::InfiniteDuration();
    absl::Duration fence_at = absl::InfiniteDuration();
    absl::Duration stopped_at = absl::InfiniteDuration();
    // Time at which the supervisor has to kill the task.
    absl::Duration killed_at = absl::InfiniteDuration();
    // Key of the run in `deadlines_`; infinite when it is not there.
    absl::Duration deadline = absl::InfiniteDuration();
    // The deadline passed while this process was suspended, and was postponed once.
    bool was_postponed = false;
    // Number of attempts to kill the processes of an overdue run.
    int kill_rounds = 0;
    // Result of a run that missed its deadline; set when killing it begins.
    std::optional<core::RunResult> overdue_result = {};
    // The supervisor has announced that it starts the task.
    bool may_have_started = false;
    // The supervisor has reported that no process of the task is left.
    bool processes_gone = false;
    // The first supervisor died; a second one removes the files of the run.
    bool is_cleanup = false;
    // Result of a run whose supervisor died. Overrides the report of the second supervisor.
    std::optional<core::RunResult> failure_result = {};
  };
  struct Launch {
    uint64_t number = 0;
    std::array<base::Descriptor, kRunDescriptors> descriptors = {};
  };
  // The source of an epoll event. All but kLauncher and kWake belong to a run.
  enum class Source { kControl, kStdout, kStderr, kLauncher, kWake };

  void AddToEpoll(const base::Descriptor& descriptor, uint64_t number, Source source,
                  uint32_t events);
  void AddLauncherToEpoll();
  void HandleEvent(uint64_t number, Source source);
  // Returns null when the run has ended.
  Run* FindRun(uint64_t number);

  absl::Status LaunchSupervisor(uint64_t number, Run& run, const RunPlan& plan);
  void SendLaunches();
  void HandleLauncherEvent();
  void OnSupervisorDeathReported(uint64_t number);
  // Pings a launcher that has not sent a message for a while. Replaces one that does not reply.
  void CheckLauncher(absl::Duration now);
  void ReplaceLauncher();
  std::set<pid_t> Supervisors() const;

  void HandleControlEvent(uint64_t number, Run& run);
  void HandleProgress(absl::string_view message, Run& run);
  void SetDeadline(uint64_t number, Run& run);
  void EnforceDeadlines(absl::Duration now);
  // Kills the processes of a run that missed its deadline, and then its supervisor.
  void KillOverdue(uint64_t number, Run& run, absl::Duration now);
  void HandleSupervisorDeath(uint64_t number, Run& run);
  // Reads once. Returns false when there is no output, or the stream is closed.
  bool ReadOutput(Run& run, ports::OutputStream stream);
  void HandleOutputEvent(uint64_t number, Run& run, ports::OutputStream stream);
  void SendChunks(Run& run);
  void ScheduleCut(uint64_t number, Run& run);
  void CutDueChunks();
  void EndRun(uint64_t number, Run& run, Report report);

  const Deps deps_;
  std::optional<LauncherLink> launcher_;
  // Incremented when the launcher is replaced.
  uint64_t launcher_generation_ = 1;
  base::Descriptor events_;
  std::vector<char> buffer_;

  uint64_t last_number_ = 0;
  std::map<uint64_t, std::unique_ptr<Run>> runs_;
  std::map<core::FenceToken, uint64_t> numbers_;
  // Runs that wait because the socket of the launcher is full.
  std::deque<Launch> launches_;
  // Runs with buffered output, by the time at which it becomes a chunk.
  std::set<std::pair<absl::Duration, uint64_t>> cuts_due_;
  // Runs by the time at which this process kills them.
  std::set<std::pair<absl::Duration, uint64_t>> deadlines_;
  // Time of the next ping or, while a ping is pending, deadline of the reply. Infinite when there
  // are no runs.
  absl::Duration ping_deadline_ = absl::InfiniteDuration();
  bool is_ping_pending_ = false;
};

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_RUN_LOOP_H_
