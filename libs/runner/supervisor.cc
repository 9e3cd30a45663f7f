#include "libs/runner/supervisor.h"

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
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/runner/child_processes.h"
#include "libs/runner/run_files.h"
#include "libs/runner/run_plan.h"

namespace callboard::runner {
namespace {

constexpr rlim_t kOpenFiles = 1024;
// Time between attempts to kill all children, in case a list of children missed one.
constexpr int kKillAgainMilliseconds = 10;
// How much later than the task this process may receive a SIGTERM for all processes of a service.
// Waits only when the task was ended by a SIGTERM, so that other failures are not reported late.
constexpr int kSigtermMilliseconds = 100;
// Exit code of a shell whose command was ended by SIGTERM.
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

base::Descriptor OpenSignals() {
  sigset_t signal_set;
  sigemptyset(&signal_set);
  sigaddset(&signal_set, SIGCHLD);
  sigaddset(&signal_set, SIGTERM);
  CHECK_EQ(sigprocmask(SIG_BLOCK, &signal_set, nullptr), 0);
  // The launcher ignores SIGTERM, and an ignored signal may not be queued.
  signal(SIGTERM, SIG_DFL);
  base::Descriptor signals(signalfd(-1, &signal_set, SFD_NONBLOCK | SFD_CLOEXEC));
  CHECK(signals.is_open());
  return signals;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("SIG", signal) : absl::StrCat("SIG", name);
}

bool IsReady(const pollfd& poll_fd) { return poll_fd.revents != 0; }

bool HasExpired(const BootTimer& timer) {
  pollfd poll_fd = {timer.descriptor(), POLLIN, 0};
  return poll(&poll_fd, 1, 0) > 0;
}

}  // namespace

Supervisor::Supervisor(RunPlan plan, base::Descriptor control, base::Descriptor standard_output,
                       base::Descriptor standard_error)
    : plan_(std::move(plan)),
      control_(std::move(control)),
      output_(std::move(standard_output)),
      error_(std::move(standard_error)),
      signals_(OpenSignals()) {}

bool Supervisor::Run() {
  LimitThisProcess();
  fence_.SetAt(plan_.fence_at);
  if (!plan_.argv.empty()) start_status_ = StartTask();
  output_.Close();
  error_.Close();
  if (task_ != 0) Supervise();
  SendToAgent(kProcessesGone);

  Report report = {.result = MakeResult()};
  if (const std::optional<ResultFile> file = ReadResultFile(plan_.folders)) {
    report.has_result_file = true;
    report.result.result = file->text;
    report.result.result_truncated = file->truncated;
  }
  if (report.result.end == core::RunResult::End::kCompleted && wait_status_.has_value()) {
    if (const absl::Status kept = KeepArtifacts(plan_.folders); !kept.ok()) {
      report.result.end = core::RunResult::End::kFailed;
      report.result.error = std::string(kept.message());
    }
  }
  // Files that cannot be removed now are removed when the next agent starts.
  RemoveFiles(plan_.folders).IgnoreError();
  if (!control_.is_open()) return true;
  const std::string bytes = EncodeReport(report);
  return send(control_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

absl::Status Supervisor::StartTask() {
  ASSIGN_OR_RETURN(const std::string folder, PrepareFiles(plan_));
  ASSIGN_OR_RETURN(const std::string program, FindProgram(plan_.argv.front(), plan_.environment));
  // Use a file, not a pipe, so that a task that does not read its input blocks nothing.
  const std::string input_file =
      plan_.prompt_is_input ? plan_.folders.prompt_file() : std::string("/dev/null");
  const base::Descriptor input(open(input_file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input.is_open()) return base::SystemError(absl::StrCat("read ", input_file));
  ReceiveInstructions();
  if (HasExpired(fence_)) Stop(Cause::kFence);
  if (phase_ != Phase::kRunning) {
    return absl::AbortedError(cause_ == Cause::kFence
                                  ? "the fence passed before the task was started"
                                  : "the task was stopped before it was started");
  }
  if (send(control_.get(), kTaskStarting.data(), kTaskStarting.size(), MSG_NOSIGNAL) < 0) {
    return base::SystemError("report the start of the task");
  }
  RETURN_IF_ERROR(SpawnTask(folder, program, input.get()));
  SendToAgent(absl::StrCat(kTaskStarted, task_));
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
  const int error = runner::Spawn({.program = program,
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

void Supervisor::Supervise() {
  while (true) {
    pollfd fds[] = {{signals_.get(), POLLIN, 0},
                    {control_.get(), POLLIN, 0},
                    {fence_.descriptor(), POLLIN, 0},
                    {timeout_.descriptor(), POLLIN, 0},
                    {kill_.descriptor(), POLLIN, 0}};
    const int ready =
        poll(fds, std::size(fds), phase_ == Phase::kKilling ? kKillAgainMilliseconds : -1);
    CHECK(ready >= 0 || errno == EINTR);
    if (ready < 0) continue;
    // Reap first, so that a task that has ended is reported as ended, not as stopped.
    Reap();
    if (has_no_children_) return;
    if (IsReady(fds[1])) ReceiveInstructions();
    if (IsReady(fds[2])) {
      fence_.SetAt(absl::InfiniteDuration());
      Stop(Cause::kFence);
    }
    if (IsReady(fds[3])) {
      timeout_.SetAfter(absl::InfiniteDuration());
      Stop(Cause::kTimeout);
    }
    if (IsReady(fds[4])) {
      kill_.SetAt(absl::InfiniteDuration());
      Kill(cause_);
    }
  }
}

// Ignores errors: the agent is gone, or its socket is full and it can do without the message.
void Supervisor::SendToAgent(absl::string_view message) {
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
      has_no_children_ = true;
      return;
    }
    if (pid == 0) break;
    if (pid != task_) continue;
    task_ = 0;
    wait_status_ = status;
    // Processes that the task leaves behind have the rest of the grace period, if there is one.
    if (phase_ == Phase::kRunning) phase_ = Phase::kKilling;
  }
  if (phase_ == Phase::kKilling) KillProcesses();
}

void Supervisor::ReceiveInstructions() {
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
      Execute(*instruction);
    }
  }
}

void Supervisor::Execute(const Instruction& instruction) {
  switch (instruction.kind) {
    case Instruction::Kind::kStop:
      return Stop(Cause::kStop);
    case Instruction::Kind::kKill:
      return Kill(Cause::kStop);
    case Instruction::Kind::kMoveFence:
      plan_.fence_at = instruction.fence_at;
      return fence_.SetAt(instruction.fence_at);
  }
}

void Supervisor::Stop(Cause cause) {
  if (phase_ != Phase::kRunning) return;
  // The task has not been started yet.
  if (task_ == 0) return Kill(cause);
  phase_ = Phase::kStopping;
  cause_ = cause;
  // The grace period starts at the fence. It may have ended while the machine was suspended.
  if (cause == Cause::kFence) {
    kill_.SetAt(plan_.fence_at + plan_.kill_grace);
  } else {
    kill_.SetAfter(plan_.kill_grace);
  }
  kill(-task_, SIGTERM);
  // A suspended process handles SIGTERM only after SIGCONT.
  kill(-task_, SIGCONT);
}

void Supervisor::Kill(Cause cause) {
  if (phase_ == Phase::kRunning) cause_ = cause;
  phase_ = Phase::kKilling;
  KillProcesses();
}

void Supervisor::KillProcesses() {
  // Processes that they leave behind become children of this process, which receives a SIGCHLD.
  for (const pid_t child : ChildProcesses()) KillChild(child);
}

bool Supervisor::WasTerminatedFromOutside() {
  if (!wait_status_.has_value()) return false;
  if (WIFEXITED(*wait_status_) && WEXITSTATUS(*wait_status_) == 0) return false;
  ReadSignals();
  const bool died_of_it =
      (WIFSIGNALED(*wait_status_) && WTERMSIG(*wait_status_) == SIGTERM) ||
      (WIFEXITED(*wait_status_) && WEXITSTATUS(*wait_status_) == kSigtermExitCode);
  if (!got_sigterm_ && died_of_it) {
    pollfd poll_fd = {signals_.get(), POLLIN, 0};
    poll(&poll_fd, 1, kSigtermMilliseconds);
    ReadSignals();
  }
  return got_sigterm_;
}

core::RunResult Supervisor::MakeResult() {
  using End = core::RunResult::End;
  core::RunResult result;
  if (wait_status_.has_value() && WIFEXITED(*wait_status_)) {
    result.exit_code = WEXITSTATUS(*wait_status_);
  }
  if (wait_status_.has_value() && WIFSIGNALED(*wait_status_)) {
    result.signal = SignalName(WTERMSIG(*wait_status_));
  }
  switch (cause_) {
    case Cause::kExit:
      if (WasTerminatedFromOutside()) {
        result.end = End::kCancelled;
        result.error = "the task failed after a SIGTERM to all processes of the agent";
        break;
      }
      result.end = !start_status_.ok()     ? End::kNotStarted
                   : result.exit_code == 0 ? End::kCompleted
                                           : End::kFailed;
      break;
    case Cause::kTimeout:
      result.end = End::kTimedOut;
      break;
    case Cause::kFence:
      result.error =
          "the task was stopped at its fence: no message of the director arrived in time";
      result.end = End::kCancelled;
      break;
    case Cause::kStop:
    case Cause::kAgentGone:
      result.end = End::kCancelled;
      break;
  }
  if (!start_status_.ok()) {
    result.error = base::SanitizeText(std::string(start_status_.message()), core::kErrorBytesMax);
  }
  return result;
}

}  // namespace callboard::runner
