// Programs under test, and what the kernel's process table says about them.

#ifndef CALLBOARD_LIBS_TESTING_PROCESS_H_
#define CALLBOARD_LIBS_TESTING_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/mutex.h"
#include "libs/testing/files.h"

namespace callboard::test {

// ---- The process table ----

// Returns whether the process runs; a zombie does not.
inline bool IsAlive(pid_t pid) {
  const std::string stat = FileText(absl::StrCat("/proc/", pid, "/stat"));
  return !stat.empty() && !absl::StrContains(stat, ") Z") && !absl::StrContains(stat, ") X");
}

// Returns once the process is not alive. The timeout of the test limits the wait.
inline void WaitUntilDead(pid_t pid) {
  while (IsAlive(pid)) std::this_thread::yield();
}

// Returns the fields of /proc/PID/stat from the state on; none if there is no such process.
inline std::vector<std::string> StatFieldsOf(pid_t pid) {
  const std::string stat = FileText(absl::StrCat("/proc/", pid, "/stat"));
  return absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
}

inline pid_t ParentOf(pid_t pid) {
  const std::vector<std::string> fields = StatFieldsOf(pid);
  int parent = 0;
  return fields.size() > 1 && absl::SimpleAtoi(fields[1], &parent) ? parent : 0;
}

// Returns the processor time of all its threads, to a hundredth of a second. REQUIRES: the process
// has not been waited for.
inline absl::Duration ProcessorTimeOf(pid_t pid) {
  const std::vector<std::string> fields = StatFieldsOf(pid);
  uint64_t user = 0;
  uint64_t system = 0;
  CHECK(fields.size() > 12 && absl::SimpleAtoi(fields[11], &user) &&
        absl::SimpleAtoi(fields[12], &system))
      << pid;
  return absl::Seconds(1) * (user + system) / sysconf(_SC_CLK_TCK);
}

// Returns a number from /proc/PID/status, such as Threads, VmRSS (in KiB) or VmHWM (peak).
inline uint64_t StatusOf(pid_t pid, absl::string_view field) {
  const std::string status = FileText(absl::StrCat("/proc/", pid, "/status"));
  uint64_t number = 0;
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, absl::StrCat(field, ":"))) continue;
    CHECK(absl::SimpleAtoi(absl::StripSuffix(line, " kB"), &number)) << line;
  }
  return number;
}

// Returns the number of open file descriptors.
inline size_t DescriptorsOf(pid_t pid) {
  const std::filesystem::directory_iterator files(absl::StrCat("/proc/", pid, "/fd"));
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// Waits until the file has `count` lines, and returns the numbers in them.
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

// Returns the processes that have `text` in their command line.
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

// ---- Programs ----

// A program under test. Its standard output and standard error are read all the time, so that the
// program is never stalled. The destructor kills it if it still runs.
class Process {
 public:
  // Runs `arguments`; the first one is the path of the program.
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads output until a line contains `text`, and returns that line. Dies and prints the output if
  // the program ends without such a line. The timeout of the test limits the wait.
  std::string WaitForLine(absl::string_view text);
  // As WaitForLine(), but returns nothing if the program ends without such a line.
  std::optional<std::string> WaitForLineOrEnd(absl::string_view text);

  pid_t pid() const { return pid_; }
  void Signal(int number);

  // Returns the exit code, 128 + n after signal n, or nothing if the program has not ended within
  // `deadline`.
  std::optional<int> WaitForExit(absl::Duration deadline);

  // Returns all output so far, or the complete output if the program has ended.
  std::string Output();

 private:
  void ReadAll();
  // Reads the output that is available now.
  void ReadSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  int output_fd_ = -1;
  size_t searched_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  bool at_end_ ABSL_GUARDED_BY(mutex_) = false;
  // Closing the write end of this pipe stops the thread: children of the program may keep its
  // output open.
  std::array<int, 2> stop_ = {-1, -1};
  std::thread reader_;
};

// The result of a program that has ended.
struct ProcessResult {
  // Empty if it did not end within a minute.
  std::optional<int> exit_code;
  std::string output;
};

ProcessResult RunToEnd(const std::vector<std::string>& arguments);

// Returns the value of `key` in a logfmt line.
std::string FieldOf(absl::string_view line, absl::string_view key);

// Returns the path of the binary that Bazel built at `path` below the workspace.
std::string BuiltBinary(absl::string_view path);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_PROCESS_H_
