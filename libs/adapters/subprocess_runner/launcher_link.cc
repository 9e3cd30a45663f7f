#include "libs/adapters/subprocess_runner/launcher_link.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/base/check.h"
#include "libs/base/spawn.h"

namespace callboard::adapters {
namespace {

constexpr int kReadyMilliseconds = 30'000;
// More than it gives its supervisors.
constexpr int kEndMilliseconds = 4'000;
// Looks for what is to be killed, and the time between them.
constexpr int kKillLooksMax = 50;
constexpr int kKillLookMilliseconds = 2;

// Out of the way of the numbers that the launcher knows its descriptors by.
base::Descriptor MovedAway(int descriptor) {
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
      base::Spawn({.program = "/proc/self/exe",
                   .argv = {std::string(kLauncherName), std::string(kLauncherArgument)},
                   .environment = environment,
                   .actions = &actions},
                  pid);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

bool IsReady(const base::Descriptor& socket) {
  pollfd watched = {socket.get(), POLLIN, 0};
  LauncherNote note = {.run = ~kLauncherReady};
  return poll(&watched, 1, kReadyMilliseconds) == 1 &&
         recv(socket.get(), &note, sizeof(note), 0) == sizeof(note) && note.run == kLauncherReady;
}

bool EndsInTime(pid_t pid) {
  const base::Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  pollfd watched = {process.get(), POLLIN, 0};
  return process.is_open() && poll(&watched, 1, kEndMilliseconds) == 1;
}

}  // namespace

absl::StatusOr<LauncherLink> LauncherLink::Start(const base::Descriptor& lock,
                                                 const std::vector<std::string>& environment) {
  // Else each of them would start another one.
  CHECK(program_invocation_short_name != kLauncherName)
      << "main has to call MaybeRunSupervisor() before anything else";
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return base::SystemError("make a socket for the launcher");
  }
  base::Descriptor own(ends[0]);
  base::Descriptor theirs(ends[1]);
  CHECK_EQ(fcntl(own.get(), F_SETFL, O_NONBLOCK), 0);
  base::Descriptor socket = MovedAway(theirs.get());
  const base::Descriptor moved_lock = MovedAway(lock.get());
  if (!socket.is_open() || !moved_lock.is_open()) return base::SystemError("start the launcher");
  pid_t pid = 0;
  errno = Spawn(socket.get(), moved_lock.get(), environment, pid);
  if (errno != 0) return base::SystemError("start the launcher");
  // So that there is nobody to wait for when it dies.
  theirs.Close();
  socket.Close();
  LauncherLink launcher(std::move(own), pid);
  if (IsReady(launcher.socket_)) return launcher;
  kill(pid, SIGKILL);
  return absl::FailedPreconditionError(
      "the launcher of tasks does not come up; does main call MaybeRunSupervisor()?");
}

LauncherLink::~LauncherLink() {
  if (!socket_.is_open()) return;
  socket_.Close();
  if (!EndsInTime(pid_)) Kill({});
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void LauncherLink::Kill(const std::set<pid_t>& spared) {
  // One that is stopped still adopts what its supervisors leave, so all of it is found.
  for (int look = 0; look < kKillLooksMax && KillDescendants(pid_, spared); ++look) {
    poll(nullptr, 0, kKillLookMilliseconds);
  }
  kill(pid_, SIGKILL);
}

void LauncherLink::Ask() {
  // One that has no room for it has been asked enough.
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
    // One that is dead is heard of, and another one takes its place.
    CHECK(errno == EAGAIN || errno == ETOOMANYREFS || errno == EPIPE || errno == ECONNRESET)
        << strerror(errno);
    return false;
  }
}

std::optional<std::vector<LauncherNote>> LauncherLink::TakeNotes() {
  std::vector<LauncherNote> notes;
  while (true) {
    LauncherNote note;
    const ssize_t count = recv(socket_.get(), &note, sizeof(note), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return notes;
    if (count <= 0) return std::nullopt;
    notes.push_back(note);
  }
}

}  // namespace callboard::adapters
