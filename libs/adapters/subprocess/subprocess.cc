#include "libs/adapters/subprocess/subprocess.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/descriptor.h"
#include "libs/base/spawn.h"
#include "libs/base/status_macros.h"
#include "libs/flow/abort.h"

namespace callboard::adapters {
namespace {

// In a group of its own.
absl::StatusOr<pid_t> Spawn(const SubprocessOptions& options) {
  pid_t pid = -1;
  const int error = base::Spawn({.program = options.argv.front(),
                                 .argv = options.argv,
                                 .environment = options.environment,
                                 .flags = POSIX_SPAWN_SETPGROUP},
                                pid);
  if (error == 0) return pid;
  const std::string message =
      absl::StrCat("cannot run ", options.argv.front(), ": ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::UnavailableError(message);
}

// Waits until the process has ended, or, with `wake`, until that can be read. False after
// `timeout`.
bool WaitFor(int process, int wake, absl::Duration timeout) {
  pollfd watched[] = {{process, POLLIN, 0}, {wake, POLLIN, 0}};
  const int milliseconds = timeout == absl::InfiniteDuration()
                               ? -1
                               : static_cast<int>(absl::ToInt64Milliseconds(timeout));
  int ready = 0;
  do {
    ready = poll(watched, wake < 0 ? 1 : 2, milliseconds);
  } while (ready < 0 && errno == EINTR);
  CHECK_GE(ready, 0);
  return ready > 0;
}

// Ends the group, and waits for its leader.
int Reap(pid_t pid) {
  // The group is there as long as its leader was not waited for: nobody else's can have its number.
  kill(-pid, SIGKILL);
  int status = 0;
  pid_t waited = 0;
  do {
    waited = waitpid(pid, &status, 0);
  } while (waited < 0 && errno == EINTR);
  CHECK_EQ(waited, pid);
  return status;
}

}  // namespace

absl::StatusOr<ProcessEnd> RunSubprocess(const SubprocessOptions& options,
                                         const std::stop_token& stop) {
  CHECK(!options.argv.empty());
  RETURN_IF_ERROR(flow::CheckNotAborted(stop));
  const base::Descriptor wake(eventfd(0, EFD_CLOEXEC));
  if (!wake.is_open()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot run ", options.argv.front(), ": ", strerror(errno)));
  }
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(options));
  const base::Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.is_open()) {
    const std::string error = strerror(errno);
    Reap(pid);
    return absl::UnavailableError(absl::StrCat("cannot watch ", options.argv.front(), ": ", error));
  }
  {
    const std::stop_callback on_stop(stop, [&wake] { CHECK_EQ(eventfd_write(wake.get(), 1), 0); });
    WaitFor(process.get(), wake.get(), absl::InfiniteDuration());
  }
  const bool stopped = stop.stop_requested();
  if (stopped) {
    kill(-pid, SIGTERM);
    WaitFor(process.get(), -1, options.kill_grace);
  }
  const int status = Reap(pid);
  if (stopped) return flow::AbortError(absl::StrCat(options.argv.front(), " was stopped"));
  return ProcessEnd{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                    .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
}

}  // namespace callboard::adapters
