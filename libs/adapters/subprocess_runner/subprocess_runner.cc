#include "libs/adapters/subprocess_runner/subprocess_runner.h"

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
#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/adapters/subprocess_runner/remove_tree.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/base/private_folder.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

// How often and how far apart one looks whether the processes of an agent that died are gone, and
// after how many looks those that are left are killed: later than their launcher does it.
constexpr int kPredecessorLooksMax = 500;
constexpr int kPredecessorLookMilliseconds = 20;
constexpr int kPredecessorLooksUntilSaid = 25;
constexpr int kPredecessorLooksUntilKilled = 200;

// A process by its number and its start, as it is in the lock file.
struct KeeperProcess {
  pid_t pid = 0;
  uint64_t start_ticks = 0;

  bool is_alive() const { return pid > 0 && StartTicksOf(pid) == start_ticks; }
};

// The processes that hold the lock of an agent: its own, its launcher's, and supervisors that a
// launcher before that one left.
struct Keepers {
  KeeperProcess agent;
  std::vector<KeeperProcess> others;
};

// The file holds a line for each, the agent first: what cannot be read there names nobody.
Keepers ReadKeepers(const base::Descriptor& lock) {
  std::string text(64 * 1024, '\0');
  const ssize_t count = pread(lock.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  Keepers keepers;
  bool is_agent = true;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> numbers = absl::StrSplit(line, ' ');
    KeeperProcess keeper;
    if (!absl::SimpleAtoi(numbers.first, &keeper.pid) ||
        !absl::SimpleAtoi(numbers.second, &keeper.start_ticks)) {
      continue;
    }
    if (std::exchange(is_agent, false)) {
      keepers.agent = keeper;
    } else {
      keepers.others.push_back(keeper);
    }
  }
  return keepers;
}

// Where it cannot be written the next agent only waits.
void WriteKeepers(const base::Descriptor& lock, pid_t launcher,
                  const std::set<pid_t>& supervisors) {
  std::vector<pid_t> pids = {getpid(), launcher};
  pids.insert(pids.end(), supervisors.begin(), supervisors.end());
  std::string text;
  for (const pid_t pid : pids) absl::StrAppend(&text, pid, " ", StartTicksOf(pid), "\n");
  if (ftruncate(lock.get(), 0) == 0) {
    std::ignore = pwrite(lock.get(), text.data(), text.size(), 0);
  }
}

void KillKeepers(const Keepers& keepers) {
  for (const KeeperProcess& keeper : keepers.others) {
    if (!keeper.is_alive()) continue;
    // What it adopts is killed first, while it still adopts it.
    if (KillDescendants(keeper.pid)) continue;
    kill(keeper.pid, SIGKILL);
  }
}

absl::StatusOr<base::Descriptor> Lock(const std::filesystem::path& data_dir) {
  const std::string path = data_dir / "runner.lock";
  base::Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!lock.is_open()) return base::SystemError(absl::StrCat("open ", path));
  for (int looks = 0; flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++looks) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return base::SystemError(absl::StrCat("lock ", path));
    const Keepers keepers = ReadKeepers(lock);
    const bool agent_is_alive = keepers.agent.is_alive();
    if (looks == kPredecessorLooksMax) {
      return absl::FailedPreconditionError(
          agent_is_alive
              ? absl::StrCat("another agent, process ", keepers.agent.pid, ", uses ",
                             data_dir.string(), "; give each its own data_dir")
              : absl::StrCat("what an agent before this one ran in ", data_dir.string(),
                             " is still there; end the processes that have ", path, " open"));
    }
    if (looks == kPredecessorLooksUntilSaid) {
      base::LogWarning("agent", "waits_for_predecessor",
                       {{"data_dir", data_dir.string()},
                        {"pid", keepers.agent.pid},
                        {"why", agent_is_alive ? "another agent uses the folder"
                                               : "processes of a dead agent are still there"}});
    }
    if (looks >= kPredecessorLooksUntilKilled && !agent_is_alive) {
      if (looks == kPredecessorLooksUntilKilled) {
        base::LogWarning("agent", "predecessor_killed", {{"data_dir", data_dir.string()}});
      }
      KillKeepers(keepers);
    }
    poll(nullptr, 0, kPredecessorLookMilliseconds);
  }
  return lock;
}

// Removes what runs of a predecessor left. What cannot be removed, a mount for one, is in nobody's
// way: folders of runs have names of their own.
void SweepFolder(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (const absl::Status removed = RemoveTree(entry.path()); !removed.ok()) {
      base::LogWarning("agent", "leftover_kept",
                       {{"path", entry.path().string()}, {"error", removed.message()}});
    }
  }
}

// Makes the folders, without what runs of a predecessor left in them.
absl::Status PrepareFolders(const std::filesystem::path& data_dir) {
  for (const char* name : {"runs", "work", "sessions", "artifacts"}) {
    RETURN_IF_ERROR(base::MakePrivateFolder(data_dir / name));
  }
  for (const char* name : {"runs", "work"}) SweepFolder(data_dir / name);
  return absl::OkStatus();
}

// There may be space again before the first task comes, so this is no reason not to start.
void WarnWithoutSpace(const RunPlanner& planner) {
  const absl::Status space = planner.CheckSpace({});
  if (space.ok()) return;
  base::LogWarning("agent", "no_space",
                   {{"error", space.message()},
                    {"next", "it refuses tasks, which are tried elsewhere; free some space"}});
}

// A run needs three descriptors here, and what is usual would do for some 300.
void RaiseOpenFiles() {
  rlimit files = {};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Launchers have to find the libraries that the agent has found.
std::vector<std::string> LauncherEnvironment(const Environment& environment) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : AllowedEnvironment(environment, {"LD_LIBRARY_PATH"})) {
    lines.push_back(absl::StrCat(name, "=", value));
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubprocessRunner>> SubprocessRunner::Create(
    SubprocessRunnerOptions options, const ports::Clock& clock, ports::RunWatcher& watcher) {
  options.data_dir = std::filesystem::absolute(options.data_dir).lexically_normal();
  const std::vector<std::string> environment = LauncherEnvironment(options.environment);
  const std::filesystem::path data_dir = options.data_dir;
  ASSIGN_OR_RETURN(RunPlanner planner, RunPlanner::Create(std::move(options)));
  RETURN_IF_ERROR(base::MakePrivateFolder(data_dir));
  ASSIGN_OR_RETURN(base::Descriptor lock, Lock(data_dir));
  RETURN_IF_ERROR(PrepareFolders(data_dir));
  WarnWithoutSpace(planner);
  RaiseOpenFiles();
  ASSIGN_OR_RETURN(LauncherLink launcher, LauncherLink::Start(lock, environment));
  base::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return base::SystemError("make an eventfd");
  std::unique_ptr<SubprocessRunner> runner(
      new SubprocessRunner(std::move(planner), std::move(lock), std::move(wake)));
  WriteKeepers(runner->lock_, launcher.pid(), {});
  runner->loop_ = std::make_unique<RunLoop>(
      RunLoop::Parts{.planner = runner->planner_,
                     .clock = clock,
                     .watcher = watcher,
                     .lock = runner->lock_,
                     .environment = environment,
                     .on_launcher =
                         [&lock = runner->lock_](pid_t pid, const std::set<pid_t>& supervisors) {
                           WriteKeepers(lock, pid, supervisors);
                         }},
      std::move(launcher), runner->wake_.get());
  runner->thread_ = std::thread([runner = runner.get()] { runner->Loop(*runner->loop_); });
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

absl::Status SubprocessRunner::Check(const core::TaskSpec& spec) const {
  return planner_.Check(spec);
}

void SubprocessRunner::Start(ports::RunOrder order) {
  Post([order = std::move(order)](RunLoop& loop) { loop.Start(order); });
}

void SubprocessRunner::Stop(const core::FenceToken& token) {
  Post([token](RunLoop& loop) { loop.Instruct(token, {Instruction::Kind::kStop}); });
}

void SubprocessRunner::Kill(const core::FenceToken& token) {
  Post([token](RunLoop& loop) { loop.Instruct(token, {Instruction::Kind::kKill}); });
}

void SubprocessRunner::SetFence(const core::FenceToken& token, absl::Duration fence_at) {
  Post([token, fence_at](RunLoop& loop) {
    loop.Instruct(token, {Instruction::Kind::kFence, fence_at});
  });
}

void SubprocessRunner::Delivered(const core::FenceToken& token, uint64_t bytes) {
  Post([token, bytes](RunLoop& loop) { loop.Delivered(token, bytes); });
}

void SubprocessRunner::Post(Command command) {
  base::MutexLock lock(mutex_);
  commands_.push_back(std::move(command));
  if (commands_.size() == 1) CHECK_EQ(eventfd_write(wake_.get(), 1), 0);
}

void SubprocessRunner::Loop(RunLoop& loop) {
  while (true) {
    std::vector<Command> commands;
    bool stopping = false;
    {
      base::MutexLock lock(mutex_);
      // Before the commands are taken, so that no wake-up is lost.
      eventfd_t wakes = 0;
      eventfd_read(wake_.get(), &wakes);
      commands.swap(commands_);
      stopping = stopping_;
    }
    for (const Command& command : commands) command(loop);
    if (stopping && loop.empty()) return;
    loop.Turn();
  }
}

}  // namespace callboard::adapters
