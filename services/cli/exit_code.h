#ifndef CALLBOARD_SERVICES_CLI_EXIT_CODE_H_
#define CALLBOARD_SERVICES_CLI_EXIT_CODE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/cli/peer.h"

namespace callboard::cli {

// How a command ends. Scripts rely on these numbers.
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  // The command line, a setting or a jobs file that was to be checked is wrong.
  kUsage = 2,
  kQueueFull = 3,
  kNotFound = 4,
  kUnreachable = 5,
  // As a director that would not start: the store is damaged, or in use.
  kStoreRefused = 65,
  kStoreLocked = 75,
  kInterrupted = 130,
};

// That the command line, or the file that it names, is wrong; found by the command itself.
absl::Status UsageError(absl::string_view message);

// Adds to `error` that the peer did not answer, and what to do about it.
absl::Status Unreachable(const absl::Status& error, const Peer& peer);

// The exit code that stands for how a command ended: what a server answered, or its silence.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_EXIT_CODE_H_
