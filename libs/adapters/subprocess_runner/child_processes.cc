#include "libs/adapters/subprocess_runner/child_processes.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
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

// For kernels without lists of children.
std::vector<pid_t> ChildrenAmongAll() {
  std::vector<pid_t> children;
  ForEachProcess([&children](pid_t pid, const fs::path& folder) {
    const std::string stat = TextOf(folder / "stat");
    // After the name, which may hold anything: state, then parent.
    const std::vector<std::string> fields =
        absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
    int parent = 0;
    if (fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent) && parent == getpid()) {
      children.push_back(pid);
    }
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
