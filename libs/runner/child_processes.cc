#include "libs/runner/child_processes.h"

#include <signal.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"
#include "libs/base/files.h"

namespace callboard::runner {

int Spawn(const SpawnOptions& options, pid_t& pid) {
  posix_spawnattr_t attributes;
  CHECK_EQ(posix_spawnattr_init(&attributes), 0);
  sigset_t none;
  sigemptyset(&none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, static_cast<short>(options.flags | POSIX_SPAWN_SETSIGMASK |
                                                           POSIX_SPAWN_SETSIGDEF));
  const int error = posix_spawnp(&pid, options.program.c_str(), options.actions, &attributes,
                                 base::NullTerminatedPointers(options.argv).data(),
                                 base::NullTerminatedPointers(options.environment).data());
  posix_spawnattr_destroy(&attributes);
  return error;
}

BootTimer::BootTimer() : timer_(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)) {
  CHECK(timer_.is_open());
}

void BootTimer::SetAt(absl::Duration time) { Set(time, TFD_TIMER_ABSTIME); }

void BootTimer::SetAfter(absl::Duration time) { Set(time, 0); }

void BootTimer::Set(absl::Duration time, int flags) {
  itimerspec spec = {};
  // A value of zero would stop the timer.
  if (time != absl::InfiniteDuration()) {
    spec.it_value = absl::ToTimespec(std::max(time, absl::Nanoseconds(1)));
  }
  CHECK_EQ(timerfd_settime(timer_.get(), flags, &spec, nullptr), 0);
}

namespace {

namespace fs = std::filesystem;

std::string ReadText(const fs::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

template <class Visit>
void ForEachProcess(Visit visit) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    if (int pid = 0; absl::SimpleAtoi(entry.path().filename().string(), &pid)) {
      visit(pid, entry.path());
    }
  }
}

// Returns false for kernel threads and dead processes.
bool HasProgram(const fs::path& folder) {
  std::error_code error;
  return !fs::read_symlink(folder / "exe", error).empty();
}

struct ProcessStat {
  // The process is dead but was not waited for.
  bool is_zombie = false;
  pid_t parent = 0;
  uint64_t start_ticks = 0;
};

// Returns null when there is no such process.
std::optional<ProcessStat> ReadStat(const fs::path& folder) {
  const std::string stat = ReadText(folder / "stat");
  // Skip the name, which may contain any character. The next field is the third one, the state.
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  constexpr size_t kState = 0;
  constexpr size_t kParent = 1;
  constexpr size_t kStartTime = 19;
  ProcessStat process;
  if (fields.size() <= kStartTime || !absl::SimpleAtoi(fields[kParent], &process.parent) ||
      !absl::SimpleAtoi(fields[kStartTime], &process.start_ticks)) {
    return std::nullopt;
  }
  process.is_zombie = fields[kState] == "Z" || fields[kState] == "X";
  return process;
}

// Searches /proc for children, for kernels without /proc/<pid>/task/<tid>/children.
std::vector<pid_t> FindChildrenInProc() {
  std::vector<pid_t> children;
  ForEachProcess([&children](pid_t pid, const fs::path& folder) {
    const std::optional<ProcessStat> process = ReadStat(folder);
    if (process.has_value() && process->parent == getpid()) children.push_back(pid);
  });
  return children;
}

}  // namespace

std::vector<pid_t> ChildProcesses() {
  std::vector<pid_t> children;
  std::error_code error;
  for (const fs::directory_entry& thread : fs::directory_iterator("/proc/self/task", error)) {
    std::ifstream list(thread.path() / "children");
    if (!list.is_open()) return FindChildrenInProc();
    for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  }
  return children;
}

void KillChild(pid_t child) {
  // The id of a group cannot be reused while it has a member.
  const pid_t group = getpgid(child);
  if (group > 0 && group != getpgrp()) kill(-group, SIGKILL);
  kill(child, SIGKILL);
}

bool KillDescendants(pid_t root, const std::set<pid_t>& spared) {
  std::map<pid_t, std::vector<pid_t>> children;
  std::set<pid_t> zombies;
  ForEachProcess([&](pid_t pid, const fs::path& folder) {
    const std::optional<ProcessStat> process = ReadStat(folder);
    if (!process.has_value()) return;
    children[process->parent].push_back(pid);
    if (process->is_zombie) zombies.insert(pid);
  });
  const pid_t root_group = getpgid(root);
  bool found = false;
  std::vector<pid_t> to_visit = children[root];
  while (!to_visit.empty()) {
    const pid_t pid = to_visit.back();
    to_visit.pop_back();
    if (spared.contains(pid)) continue;
    to_visit.insert(to_visit.end(), children[pid].begin(), children[pid].end());
    if (zombies.contains(pid)) continue;
    found = true;
    const pid_t group = getpgid(pid);
    if (group > 0 && group != root_group && group != getpgrp()) kill(-group, SIGKILL);
    kill(pid, SIGKILL);
  }
  return found;
}

uint64_t ProcessStartTicks(pid_t pid) {
  const std::optional<ProcessStat> process = ReadStat(fs::path("/proc") / std::to_string(pid));
  return process.has_value() && !process->is_zombie ? process->start_ticks : 0;
}

void KillProcessesWithVariable(absl::string_view variable) {
  // Repeat for processes that were started during the search, and for those that had no environment
  // at that moment because they were executing another program.
  constexpr int kRoundsMax = 10;
  bool found = true;
  for (int round = 0; round < kRoundsMax && found; ++round) {
    found = false;
    ForEachProcess([&](pid_t pid, const fs::path& folder) {
      const std::string environment = ReadText(folder / "environ");
      if (environment.empty() && HasProgram(folder)) found = true;
      for (const absl::string_view line : absl::StrSplit(environment, '\0')) {
        if (line != variable) continue;
        found = true;
        kill(pid, SIGKILL);
      }
    });
  }
}

}  // namespace callboard::runner
