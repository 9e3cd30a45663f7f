#ifndef CALLBOARD_SERVICES_CLI_EXIT_CODE_H_
#define CALLBOARD_SERVICES_CLI_EXIT_CODE_H_

#include "absl/status/status.h"

namespace callboard::cli {

// How a command ends. Scripts rely on these numbers.
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  // The command line or a setting is wrong.
  kUsage = 2,
  kQueueFull = 3,
  kNotFound = 4,
  kUnreachable = 5,
  kInterrupted = 130,
};

// Adds to `error` that no server answered.
absl::Status Unreachable(const absl::Status& error, const std::string& address);

// The exit code that stands for what a server answered, or for its silence.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_EXIT_CODE_H_
