#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_LOOP_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_LOOP_H_

#include <array>
#include <cstdint>
#include <deque>
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
  };

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
    // Its supervisor says so before it starts the task.
    bool may_have_begun = false;
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
  void ReplaceLauncher();

  void OnControl(uint64_t number, Run& run);
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
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_LOOP_H_
