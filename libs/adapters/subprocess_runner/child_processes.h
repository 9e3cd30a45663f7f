#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_CHILD_PROCESSES_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <vector>

#include "absl/strings/string_view.h"

namespace callboard::adapters {

// The children of this process, zombies included, as far as they can be seen while others come and
// go: ask again until there are none. A child that was not waited for keeps its number, so none of
// them is somebody else.
std::vector<pid_t> ChildProcesses();

// Kills a child and, at one stroke, its process group: no member has the time to start another one.
// REQUIRES: it is a child that was not waited for.
void KillChild(pid_t child);

// Kills those of all processes that have `variable`, name=value, in the environment they were
// started with. For what lost its parents; a process that hides is not found.
void KillMarkedProcesses(absl::string_view variable);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_CHILD_PROCESSES_H_
