#include "libs/adapters/subprocess/subprocess.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/flow/abort.h"

namespace callboard::adapters {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (is_open()) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

// As the C interfaces want it.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In a group of its own, with the signals as a program expects them, whatever is blocked or ignored
// here.
absl::StatusOr<pid_t> Spawn(const SubprocessOptions& options) {
  posix_spawnattr_t attributes;
  CHECK_EQ(posix_spawnattr_init(&attributes), 0);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, options.argv.front().c_str(), nullptr, &attributes,
                   Pointers(options.argv).data(), Pointers(options.environment).data());
  posix_spawnattr_destroy(&attributes);
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
  const Descriptor wake(eventfd(0, EFD_CLOEXEC));
  if (!wake.is_open()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot run ", options.argv.front(), ": ", strerror(errno)));
  }
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(options));
  const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
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
