#ifndef CALLBOARD_LIBS_BASE_SPAWN_H_
#define CALLBOARD_LIBS_BASE_SPAWN_H_

#include <spawn.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace callboard::base {

struct SpawnOptions {
  // Looked for in PATH unless it has a slash.
  const std::string& program;
  const std::vector<std::string>& argv;
  const std::vector<std::string>& environment;
  // What becomes of descriptors and of the folder; null when nothing does.
  const posix_spawn_file_actions_t* actions = nullptr;
  // POSIX_SPAWN_SETSID, or POSIX_SPAWN_SETPGROUP for a group of its own.
  int flags = 0;
};

// Starts a program with the signals as it expects them, whatever is blocked or ignored here.
// Returns 0 and its number, or what errno would be.
int Spawn(const SpawnOptions& options, pid_t& pid);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_SPAWN_H_
