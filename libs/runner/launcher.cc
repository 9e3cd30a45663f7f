#include "libs/runner/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
#include "libs/base/check.h"
#include "libs/base/files.h"
#include "libs/runner/child_processes.h"
#include "libs/runner/run_plan.h"
#include "libs/runner/supervisor.h"

namespace callboard::runner {

// ---- The launcher's process ---------------------------------------------------------------------

namespace {

constexpr int kCleanUpMilliseconds = 10;
// Time that supervisors have to end when the agent is gone. They kill their tasks immediately and
// need the rest to remove files, which the next agent would remove as well.
constexpr absl::Duration kOrphanedSupervisorTime = absl::Seconds(2);

using RunDescriptors = std::array<base::Descriptor, kRunDescriptors>;

std::string ReadAll(const base::Descriptor& file) {
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

// Runs the supervisor. Called in the child process after fork().
[[noreturn]] void BecomeSupervisor(RunDescriptors descriptors) {
  std::optional<RunPlan> plan = DecodePlan(ReadAll(descriptors[3]));
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

  // Returns when the agent and all supervisors are gone.
  void Run() {
    Send({kLauncherReady});
    while (socket_.is_open() || !supervisors_.empty() || !dead_runs_.empty()) {
      pollfd fds[] = {{signals_.get(), POLLIN, 0},
                      {socket_.get(), POLLIN, 0},
                      {orphan_timer_.has_value() ? orphan_timer_->descriptor() : -1, POLLIN, 0}};
      const int ready = poll(fds, std::size(fds), dead_runs_.empty() ? -1 : kCleanUpMilliseconds);
      CHECK(ready >= 0 || errno == EINTR);
      Reap();
      if (ready > 0 && fds[1].revents != 0) Receive();
      if (ready > 0 && fds[2].revents != 0) KillSupervisors();
    }
  }

 private:
  // Ignores errors: they mean that the agent is gone.
  void Send(const LauncherMessage& message) {
    if (socket_.is_open()) send(socket_.get(), &message, sizeof(message), MSG_NOSIGNAL);
  }

  // Receives and handles one message of the agent.
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
      return orphan_timer_.emplace().SetAfter(kOrphanedSupervisorTime);
    }
    if (run == kLauncherReady) return Send({kLauncherReady});
    RunDescriptors descriptors;
    const cmsghdr* rights = CMSG_FIRSTHDR(&message);
    const size_t received = rights == nullptr ? 0 : (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < received; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(rights) + i * sizeof(int), sizeof(int));
      descriptors[i] = base::Descriptor(number);
    }
    if (received == kRunDescriptors) return Fork(run, std::move(descriptors));
    ReportNotStarted(run, descriptors[0],
                     absl::ResourceExhaustedError("the launcher has no descriptor left"));
  }

  void Fork(uint64_t run, RunDescriptors descriptors) {
    const pid_t pid = fork();
    if (pid == 0) {
      socket_.Close();
      signals_.Close();
      BecomeSupervisor(std::move(descriptors));
    }
    if (pid < 0) {
      return ReportNotStarted(run, descriptors[0], base::SystemError("start a supervisor"));
    }
    supervisors_[pid] = run;
    Send({.run = run, .supervisor = pid});
  }

  // Kills suspended supervisors, which cannot notice that the agent is gone.
  void KillSupervisors() {
    orphan_timer_->SetAfter(absl::InfiniteDuration());
    for (const auto& [pid, run] : supervisors_) kill(pid, SIGKILL);
  }

  // Sends the report of a run whose supervisor could not be forked. Marks the run as dead in case
  // the report is not received.
  void ReportNotStarted(uint64_t run, const base::Descriptor& control, const absl::Status& why) {
    const std::string report = EncodeReport(NotStartedReport(why));
    send(control.get(), report.data(), report.size(), MSG_NOSIGNAL);
    dead_runs_.insert(run);
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
        dead_runs_.insert(supervisor->second);
      }
      supervisors_.erase(supervisor);
    }
    if (!dead_runs_.empty()) CleanUpDeadRuns();
  }

  // Kills the processes that dead supervisors left behind, and reports the dead runs when none is
  // left. All children except supervisors are such processes: live supervisors adopt their own.
  void CleanUpDeadRuns() {
    bool left = false;
    for (const pid_t child : ChildProcesses()) {
      if (supervisors_.contains(child)) continue;
      left = true;
      KillChild(child);
    }
    if (left) return;
    for (const uint64_t run : dead_runs_) Send({.run = run});
    dead_runs_.clear();
  }

  // Closed when the agent is gone.
  base::Descriptor socket_;
  base::Descriptor signals_;
  // Set when the agent is gone. Expires when the supervisors must have ended.
  std::optional<BootTimer> orphan_timer_;
  // The runs of the supervisors, by process id.
  std::map<pid_t, uint64_t> supervisors_;
  // Runs whose supervisors died before their report.
  std::set<uint64_t> dead_runs_;
};

}  // namespace

std::optional<int> MaybeRunLauncher(int argc, char** argv) {
  if (argc < 2 || argv[1] != kLauncherArgument) return std::nullopt;
  for (const int own : {kLauncherSocket, kLauncherLock}) {
    if (fcntl(own, F_SETFD, FD_CLOEXEC) != 0) {
      std::fprintf(stderr, "%s: only an agent starts this\n", argv[0]);
      return EXIT_FAILURE;
    }
  }
  // Leave the session of the agent: signals of its terminal are not for tasks.
  setsid();
  for (const int from_outside : {SIGTERM, SIGINT, SIGHUP}) signal(from_outside, SIG_IGN);
  prctl(PR_SET_NAME, "cb-launcher");
  CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  // Tasks have the same user, but must not read this process or attach a debugger to it.
  CHECK_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
  // Close descriptors that the agent has leaked.
  CHECK_EQ(close_range(kLauncherLock + 1, ~0U, 0), 0);
  Launcher().Run();
  return EXIT_SUCCESS;
}

// ---- LauncherLink -------------------------------------------------------------------------------

namespace {

constexpr int kReadyMilliseconds = 30'000;
// Longer than the time that the launcher gives its supervisors.
constexpr int kEndMilliseconds = 4'000;
// Number of attempts to kill all descendants of the launcher, and the time between them.
constexpr int kKillRoundsMax = 50;
constexpr int kKillRoundMilliseconds = 2;

// Duplicates a descriptor to a number above those that the launcher uses.
base::Descriptor DuplicateAboveLauncher(int descriptor) {
  return base::Descriptor(fcntl(descriptor, F_DUPFD_CLOEXEC, kLauncherLock + 1));
}

int Spawn(int socket, int lock, const std::vector<std::string>& environment, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
  for (const int none : {STDIN_FILENO, STDOUT_FILENO}) {
    CHECK_EQ(posix_spawn_file_actions_addopen(&actions, none, "/dev/null", O_RDWR, 0), 0);
  }
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, socket, kLauncherSocket), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, lock, kLauncherLock), 0);
  const int error =
      runner::Spawn({.program = "/proc/self/exe",
                     .argv = {std::string(kLauncherName), std::string(kLauncherArgument)},
                     .environment = environment,
                     .actions = &actions},
                    pid);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool WaitUntilReady(const base::Descriptor& socket) {
  pollfd poll_fd = {socket.get(), POLLIN, 0};
  LauncherMessage message = {.run = ~kLauncherReady};
  return poll(&poll_fd, 1, kReadyMilliseconds) == 1 &&
         recv(socket.get(), &message, sizeof(message), 0) == sizeof(message) &&
         message.run == kLauncherReady;
}

bool WaitForExit(pid_t pid) {
  const base::Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd poll_fd = {process.get(), POLLIN, 0};
  return process.is_open() && poll(&poll_fd, 1, kEndMilliseconds) == 1;
}

}  // namespace

absl::StatusOr<LauncherLink> LauncherLink::Start(const base::Descriptor& lock,
                                                 const std::vector<std::string>& environment) {
  // A launcher that does not know that it is one must not start another one.
  CHECK(program_invocation_short_name != kLauncherName)
      << "main must call MaybeRunLauncher() before anything else";
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return base::SystemError("make a socket for the launcher");
  }
  base::Descriptor own_end(sockets[0]);
  base::Descriptor launcher_end(sockets[1]);
  CHECK_EQ(fcntl(own_end.get(), F_SETFL, O_NONBLOCK), 0);
  base::Descriptor socket = DuplicateAboveLauncher(launcher_end.get());
  const base::Descriptor moved_lock = DuplicateAboveLauncher(lock.get());
  if (!socket.is_open() || !moved_lock.is_open()) return base::SystemError("start the launcher");
  pid_t pid = 0;
  errno = Spawn(socket.get(), moved_lock.get(), environment, pid);
  if (errno != 0) return base::SystemError("start the launcher");
  // Close our copies of the launcher's end, so that its death is noticed as end of file.
  launcher_end.Close();
  socket.Close();
  LauncherLink launcher(std::move(own_end), pid);
  if (WaitUntilReady(launcher.socket_)) return launcher;
  kill(pid, SIGKILL);
  return absl::FailedPreconditionError(
      "the launcher of tasks did not start; does main call MaybeRunLauncher()?");
}

LauncherLink::~LauncherLink() {
  if (!socket_.is_open()) return;
  socket_.Close();
  if (!WaitForExit(pid_)) Kill({});
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void LauncherLink::Kill(const std::set<pid_t>& spared) {
  // A suspended launcher still adopts the processes of its supervisors, so all of them are found.
  for (int round = 0; round < kKillRoundsMax && KillDescendants(pid_, spared); ++round) {
    poll(nullptr, 0, kKillRoundMilliseconds);
  }
  kill(pid_, SIGKILL);
}

void LauncherLink::SendPing() {
  // Ignore errors: when the socket is full, earlier messages are unanswered too.
  send(socket_.get(), &kLauncherReady, sizeof(kLauncherReady), MSG_NOSIGNAL);
}

bool LauncherLink::Launch(uint64_t run,
                          const std::array<base::Descriptor, kRunDescriptors>& descriptors) {
  iovec data = {&run, sizeof(run)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kRunDescriptors)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * kRunDescriptors);
  int numbers[kRunDescriptors];
  for (int i = 0; i < kRunDescriptors; ++i) numbers[i] = descriptors[i].get();
  std::memcpy(CMSG_DATA(rights), numbers, sizeof(numbers));
  while (true) {
    if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    // A dead launcher is noticed by ReceiveMessages() and replaced.
    CHECK(errno == EAGAIN || errno == ETOOMANYREFS || errno == EPIPE || errno == ECONNRESET)
        << strerror(errno);
    return false;
  }
}

std::optional<std::vector<LauncherMessage>> LauncherLink::ReceiveMessages() {
  std::vector<LauncherMessage> messages;
  while (true) {
    LauncherMessage message;
    const ssize_t count = recv(socket_.get(), &message, sizeof(message), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return messages;
    if (count <= 0) return std::nullopt;
    messages.push_back(message);
  }
}

}  // namespace callboard::runner
