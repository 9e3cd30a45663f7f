#include "libs/runner/subprocess_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/log.h"
#include "libs/runner/child_processes.h"
#include "libs/runner/run_files.h"

namespace callboard::runner {
namespace {

// Polling for the end of the processes of a dead agent that used the folder before. The remaining
// processes are killed later than their launcher would have killed them.
constexpr int kPredecessorPollsMax = 500;
constexpr int kPredecessorPollMilliseconds = 20;
constexpr int kPredecessorPollsUntilWarning = 25;
constexpr int kPredecessorPollsUntilKill = 200;

// A process, identified by its id and start time. A line of the lock file.
struct LockHolder {
  pid_t pid = 0;
  uint64_t start_ticks = 0;

  bool is_alive() const { return pid > 0 && ProcessStartTicks(pid) == start_ticks; }
};

// The processes that hold the lock of an agent: the agent, its launcher, and supervisors of earlier
// launchers.
struct LockHolders {
  LockHolder agent;
  std::vector<LockHolder> others;
};

// Reads the lock file, which has a line for each process, the agent first. Ignores invalid lines.
LockHolders ReadLockHolders(const base::Descriptor& lock) {
  std::string text(64 * 1024, '\0');
  const ssize_t count = pread(lock.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  LockHolders holders;
  bool is_agent = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> numbers = absl::StrSplit(line, ' ');
    LockHolder holder;
    if (!absl::SimpleAtoi(numbers.first, &holder.pid) ||
        !absl::SimpleAtoi(numbers.second, &holder.start_ticks)) {
      continue;
    }
    if (std::exchange(is_agent, false)) {
      holders.agent = holder;
    } else {
      holders.others.push_back(holder);
    }
  }
  return holders;
}

// Writes the lock file. Ignores errors: the next agent then waits, but cannot kill the processes.
void WriteLockHolders(const base::Descriptor& lock, pid_t launcher,
                      const std::set<pid_t>& supervisors) {
  std::vector<pid_t> pids = {getpid(), launcher};
  pids.insert(pids.end(), supervisors.begin(), supervisors.end());
  std::string text;
  for (const pid_t pid : pids) absl::StrAppend(&text, pid, " ", ProcessStartTicks(pid), "\n");
  if (ftruncate(lock.get(), 0) == 0) {
    std::ignore = pwrite(lock.get(), text.data(), text.size(), 0);
  }
}

void KillLockHolders(const LockHolders& holders) {
  for (const LockHolder& holder : holders.others) {
    if (!holder.is_alive()) continue;
    // Kill the descendants first, while this process still adopts them.
    if (KillDescendants(holder.pid)) continue;
    kill(holder.pid, SIGKILL);
  }
}

absl::StatusOr<base::Descriptor> Lock(const std::filesystem::path& data_dir) {
  const std::string path = data_dir / "runner.lock";
  base::Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!lock.is_open()) return base::SystemError(absl::StrCat("open ", path));
  for (int polls = 0; flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++polls) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return base::SystemError(absl::StrCat("lock ", path));
    const LockHolders holders = ReadLockHolders(lock);
    const bool agent_is_alive = holders.agent.is_alive();
    if (polls == kPredecessorPollsMax) {
      return absl::FailedPreconditionError(
          agent_is_alive
              ? absl::StrCat("another agent, process ", holders.agent.pid, ", uses ",
                             data_dir.string(), "; give each its own data_dir")
              : absl::StrCat("processes of an earlier agent in ", data_dir.string(),
                             " are still running; end the processes that have ", path, " open"));
    }
    if (polls == kPredecessorPollsUntilWarning) {
      base::LogWarning("agent", "waits_for_predecessor",
                       {{"data_dir", data_dir.string()},
                        {"pid", holders.agent.pid},
                        {"why", agent_is_alive ? "another agent uses the folder"
                                               : "processes of a dead agent are still there"}});
    }
    if (polls >= kPredecessorPollsUntilKill && !agent_is_alive) {
      if (polls == kPredecessorPollsUntilKill) {
        base::LogWarning("agent", "predecessor_killed", {{"data_dir", data_dir.string()}});
      }
      KillLockHolders(holders);
    }
    poll(nullptr, 0, kPredecessorPollMilliseconds);
  }
  return lock;
}

// Removes the files that runs of a predecessor left. Only logs a failure, such as a mount: folders
// of runs have unique names, so new runs are not affected.
void RemoveContents(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (const absl::Status removed = RemoveTree(entry.path()); !removed.ok()) {
      base::LogWarning("agent", "leftover_kept",
                       {{"path", entry.path().string()}, {"error", removed.message()}});
    }
  }
}

// Creates the folders, and removes the files that runs of a predecessor left in them.
absl::Status PrepareFolders(const std::filesystem::path& data_dir) {
  for (const char* name : {"runs", "work", "sessions", "artifacts"}) {
    RETURN_IF_ERROR(base::MakePrivateFolder(data_dir / name));
  }
  for (const char* name : {"runs", "work"}) RemoveContents(data_dir / name);
  return absl::OkStatus();
}

// A full disk does not prevent the start: there may be space again before the first task.
void WarnIfNoSpace(const RunPlanner& planner) {
  const absl::Status space = planner.CheckSpace({});
  if (space.ok()) return;
  base::LogWarning(
      "agent", "no_space",
      {{"error", space.message()},
       {"next", "the agent rejects tasks, which are tried on other agents; free some space"}});
}

// A run needs three descriptors in this process, so the usual soft limit allows only about 300.
void RaiseFileLimit() {
  rlimit files = {};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Launchers need LD_LIBRARY_PATH to find the same shared libraries as the agent.
std::vector<std::string> LauncherEnvironment(const Environment& environment) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : AllowedEnvironment(environment, {"LD_LIBRARY_PATH"})) {
    lines.push_back(absl::StrCat(name, "=", value));
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubprocessRunner>> SubprocessRunner::Create(
    SubprocessRunnerOptions options, const ports::Clock& clock, ports::RunObserver& observer) {
  options.data_dir = std::filesystem::absolute(options.data_dir).lexically_normal();
  const std::vector<std::string> environment = LauncherEnvironment(options.environment);
  const std::filesystem::path data_dir = options.data_dir;
  ASSIGN_OR_RETURN(RunPlanner planner, RunPlanner::Create(std::move(options)));
  RETURN_IF_ERROR(base::MakePrivateFolder(data_dir));
  ASSIGN_OR_RETURN(base::Descriptor lock, Lock(data_dir));
  RETURN_IF_ERROR(PrepareFolders(data_dir));
  WarnIfNoSpace(planner);
  RaiseFileLimit();
  ASSIGN_OR_RETURN(LauncherLink launcher, LauncherLink::Start(lock, environment));
  base::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return base::SystemError("make an eventfd");
  std::unique_ptr<SubprocessRunner> runner(
      new SubprocessRunner(std::move(planner), std::move(lock), std::move(wake)));
  WriteLockHolders(runner->lock_, launcher.pid(), {});
  runner->loop_ = std::make_unique<RunLoop>(
      RunLoop::Deps{.planner = runner->planner_,
                    .clock = clock,
                    .observer = observer,
                    .lock = runner->lock_,
                    .environment = environment,
                    .on_launcher =
                        [&lock = runner->lock_](pid_t pid, const std::set<pid_t>& supervisors) {
                          WriteLockHolders(lock, pid, supervisors);
                        }},
      std::move(launcher), runner->wake_.get());
  runner->thread_ = std::thread([runner = runner.get()] { runner->RunThread(*runner->loop_); });
  return runner;
}

SubprocessRunner::SubprocessRunner(RunPlanner planner, base::Descriptor lock, base::Descriptor wake)
    : planner_(std::move(planner)), lock_(std::move(lock)), wake_(std::move(wake)) {}

SubprocessRunner::~SubprocessRunner() {
  if (!thread_.joinable()) return;
  Post([](RunLoop& loop) { loop.KillAll(); });
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  CHECK_EQ(eventfd_write(wake_.get(), 1), 0);
  thread_.join();
}

absl::Status SubprocessRunner::Check(const core::RunSpec& spec) const {
  return planner_.Check(spec);
}

void SubprocessRunner::Start(ports::RunRequest request) {
  Post([request = std::move(request)](RunLoop& loop) { loop.Start(request); });
}

void SubprocessRunner::Stop(const core::FenceToken& token) {
  Post([token](RunLoop& loop) { loop.SendInstruction(token, {Instruction::Kind::kStop}); });
}

void SubprocessRunner::Kill(const core::FenceToken& token) {
  Post([token](RunLoop& loop) { loop.SendInstruction(token, {Instruction::Kind::kKill}); });
}

void SubprocessRunner::MoveFence(const core::FenceToken& token, absl::Duration fence_at) {
  Post([token, fence_at](RunLoop& loop) {
    loop.SendInstruction(token, {Instruction::Kind::kMoveFence, fence_at});
  });
}

void SubprocessRunner::AcknowledgeOutput(const core::FenceToken& token, uint64_t bytes) {
  Post([token, bytes](RunLoop& loop) { loop.AcknowledgeOutput(token, bytes); });
}

void SubprocessRunner::Post(Command command) {
  base::MutexLock lock(mutex_);
  commands_.push_back(std::move(command));
  if (commands_.size() == 1) CHECK_EQ(eventfd_write(wake_.get(), 1), 0);
}

void SubprocessRunner::RunThread(RunLoop& loop) {
  while (true) {
    std::vector<Command> commands;
    bool stopping = false;
    {
      base::MutexLock lock(mutex_);
      // Reset the eventfd before taking the commands, so that no wake-up is lost.
      eventfd_t wakes = 0;
      eventfd_read(wake_.get(), &wakes);
      commands.swap(commands_);
      stopping = stopping_;
    }
    for (const Command& command : commands) command(loop);
    if (stopping && loop.empty()) return;
    loop.RunOnce();
  }
}

}  // namespace callboard::runner
