// Starting, finding and killing processes, and a timer that runs while the machine is suspended.

#ifndef CALLBOARD_LIBS_RUNNER_CHILD_PROCESSES_H_
#define CALLBOARD_LIBS_RUNNER_CHILD_PROCESSES_H_

#include <spawn.h>
#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/files.h"

namespace callboard::runner {

struct SpawnOptions {
  // Searched for in PATH unless it contains a slash.
  const std::string& program;
  const std::vector<std::string>& argv;
  const std::vector<std::string>& environment;
  // Changes to descriptors and to the working folder; null for none.
  const posix_spawn_file_actions_t* actions = nullptr;
  // POSIX_SPAWN_SETSID for a new session, or POSIX_SPAWN_SETPGROUP for a new process group.
  int flags = 0;
};

// Starts a program with default signal handlers and no blocked signals, independent of those of
// this process. Returns 0 and sets `pid`, or returns an error number.
int Spawn(const SpawnOptions& options, pid_t& pid);

// A timer whose descriptor becomes readable when it expires. Uses CLOCK_BOOTTIME, which continues
// while the machine is suspended: the agent's monotonic time.
class BootTimer {
 public:
  BootTimer();

  // Set the timer to an absolute time, or to a time from now. An infinite time stops the timer.
  void SetAt(absl::Duration time);
  void SetAfter(absl::Duration time);

  int descriptor() const { return timer_.get(); }

 private:
  void Set(absl::Duration time, int flags);

  base::Descriptor timer_;
};

// Returns the children of this process, including zombies. The list may miss children while others
// start or end, so repeat the call until it is empty. The process ids are valid until the children
// are waited for.
std::vector<pid_t> ChildProcesses();

// Kills a child and its process group. The group is killed with one signal, so that no member can
// start another process in between. REQUIRES: `child` is a child that was not waited for.
void KillChild(pid_t child);

// Kills the living descendants of `root` and their process groups, except the processes in `spared`
// and their descendants. Returns whether it found any; call it again until it returns false.
// `root` may be suspended. REQUIRES: `root` is a subreaper, so that no descendant leaves its tree.
bool KillDescendants(pid_t root, const std::set<pid_t>& spared = {});

// Returns the start time of a process in clock ticks, or 0 when there is no such process. The start
// time distinguishes processes that have used the same process id.
uint64_t ProcessStartTicks(pid_t pid);

// Kills all processes that were started with `variable` (name=value) in their environment. Finds
// processes whose parents are gone, but not those that removed the variable.
void KillProcessesWithVariable(absl::string_view variable);

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_CHILD_PROCESSES_H_
