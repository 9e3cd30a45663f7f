#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_SUBPROCESS_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_SUBPROCESS_H_

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace callboard::adapters {

struct SubprocessOptions {
  // The program, looked for in PATH when it has no slash, and its arguments.
  std::vector<std::string> argv;
  // All of it, as name=value.
  std::vector<std::string> environment = {};
  // From SIGTERM to SIGKILL.
  absl::Duration kill_grace = absl::Seconds(10);
};

// How a process ended: by itself with `exit_code`, or by `signal` when that is not 0.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;
};

// Runs a program to its end, in a process group of its own, with this process's standard streams.
//
// When `stop` is requested the group gets SIGTERM, the program has `kill_grace` to end, and the
// answer is an AbortError(). In every case whatever is left of the group when the program has
// ended, or of the program when the grace has, gets SIGKILL before this returns. NOT_FOUND when
// there is no such program, UNAVAILABLE or RESOURCE_EXHAUSTED when the system does not let it run.
// REQUIRES: argv is not empty.
absl::StatusOr<ProcessEnd> RunSubprocess(const SubprocessOptions& options,
                                         const std::stop_token& stop);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_SUBPROCESS_H_
