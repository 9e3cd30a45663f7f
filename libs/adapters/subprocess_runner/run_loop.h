#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_LOOP_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_LOOP_H_

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
#include "libs/adapters/subprocess_runner/launcher_link.h"
#include "libs/adapters/subprocess_runner/output_log.h"
#include "libs/adapters/subprocess_runner/run_plan.h"
#include "libs/adapters/subprocess_runner/run_planner.h"
#include "libs/base/descriptor.h"
#include "libs/ports/clock.h"
#include "libs/ports/task_runner.h"

namespace callboard::adapters {

// All runs of a runner, in one thread: starts them, reads what they write, and says how they end.
// It touches no disk and waits for nothing but its descriptors; what may take long their
// supervisors do.
//
// Supervisors and the launcher are the agent's own processes, and a task of the same user can stop
// them. So both have a deadline here: a supervisor that has not ended its run kill_grace and
// kSupervisorSlack after its end was due is killed with everything below it, and a launcher that
// does not answer for kLauncherSilenceMax is killed and replaced.
//
// Not thread-safe.
class RunLoop {
 public:
  struct Parts {
    const RunPlanner& planner;
    const ports::Clock& clock;
    ports::RunWatcher& watcher;
    // Held by all processes of the launcher's.
    const base::Descriptor& lock;
    // Of launchers.
    std::vector<std::string> environment;
    // Hears of a new launcher, and of the supervisors that go on without the one before.
    std::function<void(pid_t launcher, const std::set<pid_t>& supervisors)> on_launcher;
  };

  static constexpr absl::Duration kSupervisorSlack = absl::Seconds(2);
  static constexpr absl::Duration kLauncherSilenceMax = absl::Seconds(3);

  // What `parts` refers to outlives the loop.
  RunLoop(Parts parts, LauncherLink launcher, int wake);

  void Start(const ports::RunOrder& order);
  void Instruct(const core::FenceToken& token, const Instruction& instruction);
  void Delivered(const core::FenceToken& token, uint64_t bytes);
  void KillAll();

  // Waits until something happens to a run or `wake` can be read, and does what is to be done.
  void Turn();

  bool empty() const { return runs_.empty(); }

 private:
  struct Run {
    core::FenceToken token;
    RunFolders folders;
    // Closed once nothing more is to be heard.
    base::Descriptor control = {};
    std::array<base::Descriptor, 2> outputs = {};
    OutputLog log = {};
    // Under which it is in `due_`; infinite when it is not.
    absl::Duration due_at = absl::InfiniteDuration();
    // Of the launcher that has it.
    uint64_t launcher = 0;
    // Process id; 0 until the launcher has told.
    pid_t supervisor = 0;
    absl::Duration timeout = absl::InfiniteDuration();
    absl::Duration kill_grace = {};
    // When its supervisor has to begin to end it, by reason; when it has to kill it at once.
    absl::Duration times_out_at = absl::InfiniteDuration();
    absl::Duration fence_at = absl::InfiniteDuration();
    absl::Duration stopped_at = absl::InfiniteDuration();
    absl::Duration killed_at = absl::InfiniteDuration();
    // Under which it is in `deadlines_`; infinite when it is not.
    absl::Duration deadline = absl::InfiniteDuration();
    // Its deadline passed while this process was stopped, and was put off once.
    bool was_woken = false;
    // How often its processes were looked for to be killed.
    int kill_looks = 0;
    // How it ended, when it is killed here because its supervisor did not do it.
    std::optional<core::RunResult> overdue = {};
    // Its supervisor says so before it starts the task, and when all processes are gone.
    bool may_have_begun = false;
    bool processes_are_gone = false;
    // Its supervisor died, and another one removes what is left.
    bool cleans_up = false;
    // What is said at the end, whatever the supervisor that cleans up says.
    std::optional<core::RunResult> failure = {};
  };
  struct Launch {
    uint64_t number = 0;
    std::array<base::Descriptor, kRunDescriptors> descriptors = {};
  };
  // What an event is about: one of these, or a stream of a run.
  enum class Source { kControl, kStdout, kStderr, kLauncher, kWake };

  void Watch(const base::Descriptor& descriptor, uint64_t number, Source source, uint32_t events);
  void WatchLauncher();
  void OnEvent(uint64_t number, Source source);
  // Null when it is over.
  Run* Find(uint64_t number);

  absl::Status Begin(uint64_t number, Run& run, const RunPlan& plan);
  void SendLaunches();
  void OnLauncher();
  void OnSupervisorDead(uint64_t number);
  // Asks a launcher that has not said anything for a while, and replaces one that does not answer.
  void CheckLauncher(absl::Duration now);
  void ReplaceLauncher();
  std::set<pid_t> Supervisors() const;

  void OnControl(uint64_t number, Run& run);
  void OnProgress(absl::string_view said, Run& run);
  void SetDeadline(uint64_t number, Run& run);
  void EnforceDeadlines(absl::Duration now);
  // Kills what its supervisor should have killed, and the supervisor.
  void KillOverdue(uint64_t number, Run& run, absl::Duration now);
  void OnSupervisorGone(uint64_t number, Run& run);
  // Reads once; false when there is nothing, now or ever.
  bool ReadOutput(Run& run, ports::OutputStream stream);
  void OnOutput(uint64_t number, Run& run, ports::OutputStream stream);
  void HandOut(Run& run);
  void Schedule(uint64_t number, Run& run);
  void CutOutput();
  void End(uint64_t number, Run& run, Report report);

  const Parts parts_;
  std::optional<LauncherLink> launcher_;
  // Counts launchers.
  uint64_t launcher_number_ = 1;
  base::Descriptor events_;
  std::vector<char> buffer_;

  uint64_t last_number_ = 0;
  std::map<uint64_t, std::unique_ptr<Run>> runs_;
  std::map<core::FenceToken, uint64_t> numbers_;
  // What the launcher had no room for.
  std::deque<Launch> launches_;
  // When output of which run has waited long enough.
  std::set<std::pair<absl::Duration, uint64_t>> due_;
  // When which run is killed here.
  std::set<std::pair<absl::Duration, uint64_t>> deadlines_;
  // When the launcher is to be asked, or, when it was, to have answered; infinite without runs.
  absl::Duration launcher_due_ = absl::InfiniteDuration();
  bool launcher_was_asked_ = false;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_LOOP_H_
