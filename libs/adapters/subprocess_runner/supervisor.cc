#include "libs/adapters/subprocess_runner/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/adapters/subprocess_runner/run_files.h"
#include "libs/adapters/subprocess_runner/task_environment.h"
#include "libs/base/check.h"
#include "libs/base/spawn.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::adapters {
namespace {

constexpr rlim_t kOpenFiles = 1024;
// Between looks at what is left, in case a list of children missed one.
constexpr int kKillAgainMilliseconds = 10;
// A SIGTERM for all processes of a service may reach this one so much later than the task. It is
// waited for only when the task died of a SIGTERM: other failures would be reported late.
constexpr int kSigtermMilliseconds = 100;
// What a shell exits with when what it ran died of SIGTERM.
constexpr int kSigtermExitCode = 128 + SIGTERM;

void LimitThisProcess() {
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, "cb-supervisor");
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  umask(S_IRWXG | S_IRWXO);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  rlimit files = {};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = std::min(kOpenFiles, files.rlim_max);
  setrlimit(RLIMIT_NOFILE, &files);
}

base::Descriptor WatchedSignals() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  sigaddset(&watched, SIGTERM);
  CHECK_EQ(sigprocmask(SIG_BLOCK, &watched, nullptr), 0);
  // The launcher ignores it; one that is ignored may not be queued.
  signal(SIGTERM, SIG_DFL);
  base::Descriptor signals(signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC));
  CHECK(signals.is_open());
  return signals;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("SIG", signal) : absl::StrCat("SIG", name);
}

// Whether a poll found something there.
bool IsReady(const pollfd& watched) { return watched.revents != 0; }

bool HasRunOut(const BootTimer& timer) {
  pollfd watched = {timer.descriptor(), POLLIN, 0};
  return poll(&watched, 1, 0) > 0;
}

}  // namespace

Supervisor::Supervisor(RunPlan plan, base::Descriptor control, base::Descriptor standard_output,
                       base::Descriptor standard_error)
    : plan_(std::move(plan)),
      control_(std::move(control)),
      output_(std::move(standard_output)),
      error_(std::move(standard_error)),
      signals_(WatchedSignals()) {}

bool Supervisor::Run() {
  LimitThisProcess();
  fence_.SetAt(plan_.fence_at);
  if (!plan_.argv.empty()) start_ = StartTask();
  output_.Close();
  error_.Close();
  if (task_ != 0) Watch();
  Tell(kProcessesGone);

  Report report = {.result = Result()};
  if (const std::optional<ResultFile> file = ReadResultFile(plan_.folders)) {
    report.has_result_file = true;
    report.result.result = file->text;
    report.result.result_truncated = file->truncated;
  }
  if (report.result.end == core::RunResult::End::kCompleted && status_.has_value()) {
    if (const absl::Status kept = KeepArtifacts(plan_.folders); !kept.ok()) {
      report.result.end = core::RunResult::End::kFailed;
      report.result.error = std::string(kept.message());
    }
  }
  // What cannot be removed now is removed when the next agent starts.
  RemoveFiles(plan_.folders).IgnoreError();
  if (!control_.is_open()) return true;
  const std::string bytes = EncodeReport(report);
  return send(control_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

absl::Status Supervisor::StartTask() {
  ASSIGN_OR_RETURN(const std::string folder, PrepareFiles(plan_));
  ASSIGN_OR_RETURN(const std::string program, FindProgram(plan_.argv.front(), plan_.environment));
  // A file, not a pipe: a task that does not read it holds up nobody.
  const std::string input_file =
      plan_.prompt_is_input ? plan_.folders.prompt_file() : std::string("/dev/null");
  const base::Descriptor input(open(input_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input.is_open()) return base::SystemError(absl::StrCat("read ", input_file));
  FollowInstructions();
  if (HasRunOut(fence_)) Stop(Cause::kFence);
  if (phase_ != Phase::kRunning) {
    return absl::AbortedError(cause_ == Cause::kFence ? "its fence passed before it began"
                                                      : "it was stopped before it began");
  }
  if (send(control_.get(), kTaskBegins.data(), kTaskBegins.size(), MSG_NOSIGNAL) < 0) {
    return base::SystemError("say that it begins");
  }
  RETURN_IF_ERROR(SpawnTask(folder, program, input.get()));
  Tell(absl::StrCat(kTaskStarted, task_));
  timeout_.SetAfter(plan_.timeout);
  return absl::OkStatus();
}

absl::Status Supervisor::SpawnTask(const std::string& folder, const std::string& program,
                                   int input) {
  posix_spawn_file_actions_t actions;
  CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, output_.get(), STDOUT_FILENO), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, error_.get(), STDERR_FILENO), 0);
  CHECK_EQ(posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1), 0);
  CHECK_EQ(posix_spawn_file_actions_addchdir_np(&actions, folder.c_str()), 0);
  const int error = base::Spawn({.program = program,
                                 .argv = plan_.argv,
                                 .environment = plan_.environment,
                                 .actions = &actions,
                                 .flags = POSIX_SPAWN_SETSID},
                                task_);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::OkStatus();
  task_ = 0;
  errno = error;
  return base::SystemError(absl::StrCat("run ", program, " in ", folder));
}

void Supervisor::Watch() {
  while (true) {
    pollfd watched[] = {{signals_.get(), POLLIN, 0},
                        {control_.get(), POLLIN, 0},
                        {fence_.descriptor(), POLLIN, 0},
                        {timeout_.descriptor(), POLLIN, 0},
                        {kill_.descriptor(), POLLIN, 0}};
    const int ready =
        poll(watched, std::size(watched), phase_ == Phase::kKilling ? kKillAgainMilliseconds : -1);
    CHECK(ready >= 0 || errno == EINTR);
    if (ready < 0) continue;
    // First, so that a task that has ended by itself has done so.
    Reap();
    if (is_alone_) return;
    if (IsReady(watched[1])) FollowInstructions();
    if (IsReady(watched[2])) {
      fence_.SetAt(absl::InfiniteDuration());
      Stop(Cause::kFence);
    }
    if (IsReady(watched[3])) {
      timeout_.SetAfter(absl::InfiniteDuration());
      Stop(Cause::kTimeout);
    }
    if (IsReady(watched[4])) {
      kill_.SetAt(absl::InfiniteDuration());
      Kill(cause_);
    }
  }
}

// An agent that does not hear it is gone, or heard enough.
void Supervisor::Tell(absl::string_view message) {
  if (control_.is_open()) send(control_.get(), message.data(), message.size(), MSG_NOSIGNAL);
}

void Supervisor::ReadSignals() {
  signalfd_siginfo signal;
  while (read(signals_.get(), &signal, sizeof(signal)) > 0) {
    if (signal.ssi_signo == SIGTERM) got_sigterm_ = true;
  }
}

void Supervisor::Reap() {
  ReadSignals();
  while (true) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) {
      is_alone_ = true;
      return;
    }
    if (pid == 0) break;
    if (pid != task_) continue;
    task_ = 0;
    status_ = status;
    // Those that it leaves have the rest of the grace, if there is one.
    if (phase_ == Phase::kRunning) phase_ = Phase::kKilling;
  }
  if (phase_ == Phase::kKilling) KillProcesses();
}

void Supervisor::FollowInstructions() {
  while (true) {
    char bytes[256];
    const ssize_t count = recv(control_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      control_.Close();
      Kill(Cause::kAgentGone);
      return;
    }
    if (const auto instruction = DecodeInstruction({bytes, static_cast<size_t>(count)})) {
      Follow(*instruction);
    }
  }
}

void Supervisor::Follow(const Instruction& instruction) {
  switch (instruction.kind) {
    case Instruction::Kind::kStop:
      return Stop(Cause::kStop);
    case Instruction::Kind::kKill:
      return Kill(Cause::kStop);
    case Instruction::Kind::kFence:
      plan_.fence_at = instruction.fence_at;
      return fence_.SetAt(instruction.fence_at);
  }
}

void Supervisor::Stop(Cause cause) {
  if (phase_ != Phase::kRunning) return;
  // Nothing runs yet.
  if (task_ == 0) return Kill(cause);
  phase_ = Phase::kStopping;
  cause_ = cause;
  // After a fence that passed long ago, because the machine was suspended, the grace is over too.
  if (cause == Cause::kFence) {
    kill_.SetAt(plan_.fence_at + plan_.kill_grace);
  } else {
    kill_.SetAfter(plan_.kill_grace);
  }
  kill(-task_, SIGTERM);
  // Else one that is stopped would not hear of it.
  kill(-task_, SIGCONT);
}

void Supervisor::Kill(Cause cause) {
  if (phase_ == Phase::kRunning) cause_ = cause;
  phase_ = Phase::kKilling;
  KillProcesses();
}

void Supervisor::KillProcesses() {
  // Whatever they leave behind becomes a child in their place, and a signal tells of it.
  for (const pid_t child : ChildProcesses()) KillChild(child);
}

bool Supervisor::WasTerminatedFromOutside() {
  if (!status_.has_value()) return false;
  if (WIFEXITED(*status_) && WEXITSTATUS(*status_) == 0) return false;
  ReadSignals();
  const bool died_of_it = (WIFSIGNALED(*status_) && WTERMSIG(*status_) == SIGTERM) ||
                          (WIFEXITED(*status_) && WEXITSTATUS(*status_) == kSigtermExitCode);
  if (!got_sigterm_ && died_of_it) {
    pollfd watched = {signals_.get(), POLLIN, 0};
    poll(&watched, 1, kSigtermMilliseconds);
    ReadSignals();
  }
  return got_sigterm_;
}

core::RunResult Supervisor::Result() {
  using End = core::RunResult::End;
  core::RunResult result;
  if (status_.has_value() && WIFEXITED(*status_)) result.exit_code = WEXITSTATUS(*status_);
  if (status_.has_value() && WIFSIGNALED(*status_)) result.signal = SignalName(WTERMSIG(*status_));
  switch (cause_) {
    case Cause::kItself:
      if (WasTerminatedFromOutside()) {
        result.end = End::kCancelled;
        result.error = "it failed after a SIGTERM to all processes of the agent";
        break;
      }
      result.end = !start_.ok()            ? End::kNotStarted
                   : result.exit_code == 0 ? End::kCompleted
                                           : End::kFailed;
      break;
    case Cause::kTimeout:
      result.end = End::kTimedOut;
      break;
    case Cause::kFence:
      result.error = "it was killed at its fence: the director was not heard of in time";
      result.end = End::kCancelled;
      break;
    case Cause::kStop:
    case Cause::kAgentGone:
      result.end = End::kCancelled;
      break;
  }
  if (!start_.ok()) {
    result.error = base::KeptText(std::string(start_.message()), core::kErrorBytesMax);
  }
  return result;
}

}  // namespace callboard::adapters
