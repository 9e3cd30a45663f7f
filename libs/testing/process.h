#ifndef CALLBOARD_LIBS_TESTING_PROCESS_H_
#define CALLBOARD_LIBS_TESTING_PROCESS_H_

#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace callboard::test {

// A program under test, with its standard error (and output, which goes there too) at hand: it is
// read all the time, so that the program is never stalled. Killed when it is still there at
// destruction.
class Process {
 public:
  // Runs `arguments`, the first of which is the path of the program.
  explicit Process(const std::vector<std::string>& arguments);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Reads output until a line holds `text`; returns that line. Dies, showing the output, when the
  // program ends without it: a test that waits forever is ended by its size.
  std::string WaitForLine(absl::string_view text);
  // The same, and nothing when the program ends without it.
  std::optional<std::string> WaitForLineOrEnd(absl::string_view text);

  pid_t pid() const { return pid_; }
  void Signal(int number);

  // The exit code; 128 + n after signal n; nothing when it has not ended within `deadline`.
  std::optional<int> WaitForExit(absl::Duration deadline);

  // All output up to now; to the end, once the program has ended.
  std::string Output();

 private:
  void ReadAll();
  // What is there by now.
  void ReadSome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  int output_fd_ = -1;
  size_t searched_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  bool at_end_ ABSL_GUARDED_BY(mutex_) = false;
  // A pipe whose end makes the thread stop: the program's children may hold its output open.
  std::array<int, 2> stop_ = {-1, -1};
  std::thread reader_;
};

// A program that ran to its end.
struct Ended {
  // Nothing when it did not end within a minute.
  std::optional<int> exit_code;
  std::string output;
};

Ended RunToEnd(const std::vector<std::string>& arguments);

// The value of `key` in a logfmt line.
std::string FieldOf(absl::string_view line, absl::string_view key);

// The path of the binary that Bazel built at `path` below the workspace.
std::string BuiltBinary(absl::string_view path);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_PROCESS_H_
