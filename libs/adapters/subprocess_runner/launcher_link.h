#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_LAUNCHER_LINK_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_LAUNCHER_LINK_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/adapters/subprocess_runner/launcher.h"
#include "libs/base/descriptor.h"

namespace callboard::adapters {

// The agent's end of a launcher: see launcher.h. Not thread-safe.
class LauncherLink {
 public:
  // Starts a launcher, with no more than `environment`, as name=value, of the agent's, and waits
  // until it is ready. FAILED_PRECONDITION when it is never: `main` does not call
  // MaybeRunSupervisor().
  static absl::StatusOr<LauncherLink> Start(const base::Descriptor& lock,
                                            const std::vector<std::string>& environment);
  LauncherLink(LauncherLink&&) = default;
  LauncherLink& operator=(LauncherLink&&) = delete;
  // Waits for the launcher, which waits for its supervisors; kills them when that takes too long.
  ~LauncherLink();

  // Gives it a run. False when it has too much to do: try again when the descriptor can be written.
  bool Launch(uint64_t run, const std::array<base::Descriptor, kRunDescriptors>& descriptors);

  // Asks for a note of kLauncherReady.
  void Ask();
  // What it said. Nothing at all once the launcher itself is dead.
  std::optional<std::vector<LauncherNote>> TakeNotes();
  // Kills a launcher that does not answer, and what dead supervisors left to it. The supervisors in
  // `spared` go on without it.
  void Kill(const std::set<pid_t>& spared);

  int descriptor() const { return socket_.get(); }
  pid_t pid() const { return pid_; }

 private:
  LauncherLink(base::Descriptor socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  base::Descriptor socket_;
  pid_t pid_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_LAUNCHER_LINK_H_
