#include "libs/adapters/subprocess_runner/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/adapters/subprocess_runner/boot_timer.h"
#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/adapters/subprocess_runner/run_plan.h"
#include "libs/adapters/subprocess_runner/supervisor.h"
#include "libs/base/check.h"
#include "libs/base/descriptor.h"

namespace callboard::adapters {
namespace {

constexpr int kLookAgainMilliseconds = 10;
// How long supervisors have to end when the agent is gone. They kill at once; the rest is files,
// which the next agent removes as well.
constexpr absl::Duration kOrphanedSupervisorTime = absl::Seconds(2);

using RunDescriptors = std::array<base::Descriptor, kRunDescriptors>;

std::string Contents(const base::Descriptor& file) {
  struct stat found = {};
  CHECK_EQ(fstat(file.get(), &found), 0);
  std::string bytes(static_cast<size_t>(found.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        pread(file.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    CHECK_GT(count, 0);
    done += static_cast<size_t>(count);
  }
  return bytes;
}

// In the child.
[[noreturn]] void BecomeSupervisor(RunDescriptors descriptors) {
  std::optional<RunPlan> plan = DecodePlan(Contents(descriptors[3]));
  CHECK(plan.has_value());
  descriptors[3].Close();
  Supervisor supervisor(*std::move(plan), std::move(descriptors[0]), std::move(descriptors[1]),
                        std::move(descriptors[2]));
  _exit(supervisor.Run() ? EXIT_SUCCESS : EXIT_FAILURE);
}

class Launcher {
 public:
  Launcher() : socket_(kLauncherSocket) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &child, nullptr), 0);
    signals_ = base::Descriptor(signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC));
    CHECK(signals_.is_open());
  }

  // Until the agent and all supervisors are gone.
  void Run() {
    Tell({kLauncherReady});
    while (socket_.is_open() || !supervisors_.empty() || !dead_.empty()) {
      pollfd watched[] = {{signals_.get(), POLLIN, 0},
                          {socket_.get(), POLLIN, 0},
                          {orphaned_.has_value() ? orphaned_->descriptor() : -1, POLLIN, 0}};
      const int ready =
          poll(watched, std::size(watched), dead_.empty() ? -1 : kLookAgainMilliseconds);
      CHECK(ready >= 0 || errno == EINTR);
      Reap();
      if (ready > 0 && watched[1].revents != 0) Receive();
      if (ready > 0 && watched[2].revents != 0) KillSupervisors();
    }
  }

 private:
  // An agent that does not hear it is gone.
  void Tell(const LauncherNote& note) {
    if (socket_.is_open()) send(socket_.get(), &note, sizeof(note), MSG_NOSIGNAL);
  }

  // Takes one order.
  void Receive() {
    uint64_t run = 0;
    iovec data = {&run, sizeof(run)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kRunDescriptors)];
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t count = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) {
      socket_.Close();
      return orphaned_.emplace().SetAfter(kOrphanedSupervisorTime);
    }
    if (run == kLauncherReady) return Tell({kLauncherReady});
    RunDescriptors descriptors;
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    const size_t came = rights == nullptr ? 0 : (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < came; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
      descriptors[i] = base::Descriptor(number);
    }
    if (came == kRunDescriptors) return Fork(run, std::move(descriptors));
    Refuse(run, descriptors[0],
           absl::ResourceExhaustedError("the launcher has no descriptor left"));
  }

  void Fork(uint64_t run, RunDescriptors descriptors) {
    const pid_t pid = fork();
    if (pid == 0) {
      socket_.Close();
      signals_.Close();
      BecomeSupervisor(std::move(descriptors));
    }
    if (pid < 0) return Refuse(run, descriptors[0], base::SystemError("start a supervisor"));
    supervisors_[pid] = run;
    Tell({.run = run, .supervisor = pid});
  }

  // Those that are stopped do not see that the agent is gone.
  void KillSupervisors() {
    orphaned_->SetAfter(absl::InfiniteDuration());
    for (const auto& [pid, run] : supervisors_) kill(pid, SIGKILL);
  }

  // Says in a supervisor's place that there will be none. Where that is not heard, the run is dead
  // all the same.
  void Refuse(uint64_t run, const base::Descriptor& control, const absl::Status& why) {
    const std::string report = EncodeReport(NotStarted(why));
    send(control.get(), report.data(), report.size(), MSG_NOSIGNAL);
    dead_.insert(run);
  }

  void Reap() {
    signalfd_siginfo signal;
    while (read(signals_.get(), &signal, sizeof(signal)) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto supervisor = supervisors_.find(pid);
      if (supervisor == supervisors_.end()) continue;
      if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS) {
        dead_.insert(supervisor->second);
      }
      supervisors_.erase(supervisor);
    }
    if (!dead_.empty()) BuryDead();
  }

  // Kills what dead supervisors left, and says so once there is nothing. One that lives leaves
  // nothing here.
  void BuryDead() {
    bool left = false;
    for (const pid_t child : ChildProcesses()) {
      if (supervisors_.contains(child)) continue;
      left = true;
      KillChild(child);
    }
    if (left) return;
    for (const uint64_t run : dead_) Tell({.run = run});
    dead_.clear();
  }

  // Closed when the agent is gone.
  base::Descriptor socket_;
  base::Descriptor signals_;
  // Once the agent is gone: runs out when supervisors have had their time.
  std::optional<BootTimer> orphaned_;
  // Which run each has.
  std::map<pid_t, uint64_t> supervisors_;
  // Runs whose supervisors died before their report.
  std::set<uint64_t> dead_;
};

}  // namespace

std::optional<int> MaybeRunSupervisor(int argc, char** argv) {
  if (argc < 2 || argv[1] != kLauncherArgument) return std::nullopt;
  for (const int own : {kLauncherSocket, kLauncherLock}) {
    if (fcntl(own, F_SETFD, FD_CLOEXEC) != 0) {
      std::fprintf(stderr, "%s: only an agent starts this\n", argv[0]);
      return EXIT_FAILURE;
    }
  }
  // A signal for the agent's terminal is not for its tasks.
  setsid();
  for (const int from_outside : {SIGTERM, SIGINT, SIGHUP}) signal(from_outside, SIG_IGN);
  prctl(PR_SET_NAME, "cb-launcher");
  CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // No task looks into this or stops it as a debugger, though they have the same owner.
  CHECK_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
  // Whatever the agent forgot to close.
  CHECK_EQ(close_range(kLauncherLock + 1, ~0U, 0), 0);
  Launcher().Run();
  return EXIT_SUCCESS;
}

}  // namespace callboard::adapters
