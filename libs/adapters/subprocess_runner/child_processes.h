#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_CHILD_PROCESSES_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_CHILD_PROCESSES_H_

#include <sys/types.h>

#include <cstdint>
#include <set>
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

// Looks once for the living descendants of a process and kills them, with their process groups,
// but for those in `spared` and below them. Returns whether there were any: ask again until there
// are none. For a process that adopts what its descendants leave and that may be stopped.
bool KillDescendants(pid_t root, const std::set<pid_t>& spared = {});

// When a process was started, in ticks of the machine: tells it from a later one with its number.
// 0 when there is none.
uint64_t StartTicksOf(pid_t pid);

// Kills those of all processes that have `variable`, name=value, in the environment they were
// started with. For what lost its parents; a process that hides is not found.
void KillMarkedProcesses(absl::string_view variable);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_CHILD_PROCESSES_H_
