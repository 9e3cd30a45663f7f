#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_LAUNCHER_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_LAUNCHER_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace callboard::adapters {

// The launcher is this program once more, in a process that forks a supervisor for each run: the
// agent has threads and must not fork, and starting the program anew for each run costs many
// milliseconds. It is single-threaded and holds nothing of the agent's but two descriptors:
//
//   kLauncherSocket  takes one message per run, its number with the descriptors kRunDescriptors,
//                    and kLauncherReady without any, a question whether the launcher is there;
//                    gives a LauncherNote when it is ready, in answer to that question, when it has
//                    forked a supervisor, and when a supervisor died before its report, or never
//                    was, and none of its processes is left
//   kLauncherLock    open for as long as any process of the launcher's lives but the tasks'
//
// It is the parent of what a dead supervisor leaves behind, and kills it. When the agent is gone it
// ends after the last of its supervisors, which it kills when they do not end by themselves.
//
// Launcher and supervisors outlive a SIGTERM, SIGINT or SIGHUP from outside: the agent decides when
// they end.
inline constexpr absl::string_view kLauncherName = "callboard-launcher";
inline constexpr absl::string_view kLauncherArgument = "--callboard-launch-supervisors";
// The number of no run.
inline constexpr uint64_t kLauncherReady = 0;
struct LauncherNote {
  uint64_t run = kLauncherReady;
  // Process id of the run's supervisor; 0 when that is dead.
  int64_t supervisor = 0;
};
inline constexpr int kLauncherSocket = 3;
inline constexpr int kLauncherLock = 4;
// To the supervisor, standard output, standard error, and the plan.
inline constexpr int kRunDescriptors = 4;

// What `main` calls before anything else: when this process was started to launch supervisors it
// does so until its agent is gone, and the answer is the exit code. Nothing in all other cases.
std::optional<int> MaybeRunSupervisor(int argc, char** argv);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_LAUNCHER_H_
