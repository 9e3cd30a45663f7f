#include "libs/adapters/subprocess_runner/subprocess_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/subprocess_runner/remove_tree.h"
#include "libs/base/check.h"
#include "libs/base/private_folder.h"
#include "libs/base/status_macros.h"

namespace callboard::adapters {
namespace {

// How long the processes of an agent that died may take to die as well.
constexpr int kPredecessorLooksMax = 500;
constexpr int kPredecessorLookMilliseconds = 20;

absl::StatusOr<base::Descriptor> Lock(const std::filesystem::path& data_dir) {
  const std::string path = data_dir / "runner.lock";
  base::Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!lock.is_open()) return base::SystemError(absl::StrCat("open ", path));
  for (int looks = 0; flock(lock.get(), LOCK_EX | LOCK_NB) != 0; ++looks) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return base::SystemError(absl::StrCat("lock ", path));
    if (looks == kPredecessorLooksMax) {
      return absl::FailedPreconditionError(absl::StrCat("another agent uses ", data_dir.string(),
                                                        ", or what it ran is still there"));
    }
    poll(nullptr, 0, kPredecessorLookMilliseconds);
  }
  return lock;
}

// Makes the folders, without what runs of a predecessor left in them.
absl::Status PrepareFolders(const std::filesystem::path& data_dir) {
  for (const char* name : {"runs", "work"}) RETURN_IF_ERROR(RemoveTree(data_dir / name));
  for (const char* name : {"runs", "work", "sessions", "artifacts"}) {
    RETURN_IF_ERROR(base::MakePrivateFolder(data_dir / name));
  }
  return absl::OkStatus();
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
  RaiseOpenFiles();
  ASSIGN_OR_RETURN(LauncherLink launcher, LauncherLink::Start(lock, environment));
  base::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return base::SystemError("make an eventfd");
  std::unique_ptr<SubprocessRunner> runner(
      new SubprocessRunner(std::move(planner), std::move(lock), std::move(wake)));
  runner->loop_ = std::make_unique<RunLoop>(RunLoop::Parts{.planner = runner->planner_,
                                                           .clock = clock,
                                                           .watcher = watcher,
                                                           .lock = runner->lock_,
                                                           .environment = environment},
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
