#include "libs/adapters/subprocess_runner/child_processes.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace callboard::adapters {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const fs::path& path) {
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

// Threads of the kernel have none, and neither has what is dead.
bool HasProgram(const fs::path& folder) {
  std::error_code error;
  return !fs::read_symlink(folder / "exe", error).empty();
}

struct ProcessStat {
  // Dead, and not waited for.
  bool is_zombie = false;
  pid_t parent = 0;
  uint64_t start_ticks = 0;
};

// Nothing when there is no such process.
std::optional<ProcessStat> StatOf(const fs::path& folder) {
  const std::string stat = TextOf(folder / "stat");
  // After the name, which may hold anything: the third field, the state, and so on.
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

// For kernels without lists of children.
std::vector<pid_t> ChildrenAmongAll() {
  std::vector<pid_t> children;
  ForEachProcess([&children](pid_t pid, const fs::path& folder) {
    const std::optional<ProcessStat> process = StatOf(folder);
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
    if (!list.is_open()) return ChildrenAmongAll();
    for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  }
  return children;
}

void KillChild(pid_t child) {
  // The number of a group is nobody else's while it has a member.
  const pid_t group = getpgid(child);
  if (group > 0 && group != getpgrp()) kill(-group, SIGKILL);
  kill(child, SIGKILL);
}

bool KillDescendants(pid_t root, const std::set<pid_t>& spared) {
  std::map<pid_t, std::vector<pid_t>> children;
  std::set<pid_t> zombies;
  ForEachProcess([&](pid_t pid, const fs::path& folder) {
    const std::optional<ProcessStat> process = StatOf(folder);
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

uint64_t StartTicksOf(pid_t pid) {
  const std::optional<ProcessStat> process = StatOf(fs::path("/proc") / std::to_string(pid));
  return process.has_value() && !process->is_zombie ? process->start_ticks : 0;
}

void KillMarkedProcesses(absl::string_view variable) {
  // What one of them starts while the others are looked at, and what was about to become another
  // program and had no environment at that moment, is found the next time.
  constexpr int kLooksMax = 10;
  bool found = true;
  for (int look = 0; look < kLooksMax && found; ++look) {
    found = false;
    ForEachProcess([&](pid_t pid, const fs::path& folder) {
      const std::string environment = TextOf(folder / "environ");
      if (environment.empty() && HasProgram(folder)) found = true;
      for (const absl::string_view line : absl::StrSplit(environment, '\0')) {
        if (line != variable) continue;
        found = true;
        kill(pid, SIGKILL);
      }
    });
  }
}

}  // namespace callboard::adapters
