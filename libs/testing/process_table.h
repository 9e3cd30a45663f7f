// What the machine's table of processes says, for tests that start processes.
#ifndef CALLBOARD_LIBS_TESTING_PROCESS_TABLE_H_
#define CALLBOARD_LIBS_TESTING_PROCESS_TABLE_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/testing/file_text.h"

namespace callboard::test {

// Whether it still does anything; one that nobody has waited for yet does not.
inline bool IsAlive(pid_t pid) {
  const std::string stat = FileText(absl::StrCat("/proc/", pid, "/stat"));
  return !stat.empty() && !absl::StrContains(stat, ") Z") && !absl::StrContains(stat, ") X");
}

// Returns once it is not alive; a wait in vain is ended by the size of the test.
inline void WaitUntilDead(pid_t pid) {
  while (IsAlive(pid)) std::this_thread::yield();
}

// The fields of /proc/PID/stat from the state on; none when there is no such process.
inline std::vector<std::string> StatFieldsOf(pid_t pid) {
  const std::string stat = FileText(absl::StrCat("/proc/", pid, "/stat"));
  return absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
}

inline pid_t ParentOf(pid_t pid) {
  const std::vector<std::string> fields = StatFieldsOf(pid);
  int parent = 0;
  return fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent) ? parent : 0;
}

// Time that all its threads have used of processors, to a hundredth of a second. REQUIRES: it has
// not been waited for.
inline absl::Duration ProcessorTimeOf(pid_t pid) {
  const std::vector<std::string> fields = StatFieldsOf(pid);
  uint64_t user = 0;
  uint64_t system = 0;
  CHECK(fields.size() > 12 && absl::SimpleAtoi(fields[11], &user) &&
        absl::SimpleAtoi(fields[12], &system))
      << pid;
  return absl::Seconds(1) * (user + system) / sysconf(_SC_CLK_TCK);
}

// A number in what the kernel says of it, as Threads, VmRSS (in KiB) or VmHWM, its peak.
inline uint64_t StatusOf(pid_t pid, absl::string_view field) {
  const std::string status = FileText(absl::StrCat("/proc/", pid, "/status"));
  uint64_t number = 0;
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat(field, ":"))) continue;
    CHECK(absl::SimpleAtoi(absl::StripSuffix(line, " kB"), &number)) << line;
  }
  return number;
}

// How many files, sockets and the like it has open.
inline size_t DescriptorsOf(pid_t pid) {
  const std::filesystem::directory_iterator files(absl::StrCat("/proc/", pid, "/fd"));
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// The numbers in the lines of the file, once there are `count`.
inline std::vector<pid_t> WaitForPids(const std::filesystem::path& file, size_t count) {
  while (true) {
    const std::string text = FileText(file);
    std::vector<pid_t> pids;
    for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (int pid = 0; absl::SimpleAtoi(line, &pid)) pids.push_back(pid);
    }
    if (pids.size() >= count && text.back() == '\n') return pids;
    std::this_thread::yield();
  }
}

// Processes that have `text` in their command line.
inline std::vector<pid_t> ProcessesNaming(absl::string_view text) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    int pid = 0;
    if (absl::SimpleAtoi(entry.path().filename().string(), &pid) &&
        absl::StrContains(FileText(entry.path() / "cmdline"), text)) {
      pids.push_back(pid);
    }
  }
  return pids;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_PROCESS_TABLE_H_
