#ifndef CALLBOARD_SERVICES_CLI_DEV_H_
#define CALLBOARD_SERVICES_CLI_DEV_H_

#include <map>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace callboard::cli {

// Runs `callboard dev`: a director, a scheduler and two agents in this process, reachable only from
// this machine, until the first signal. `arguments` are those after `dev`. Returns the exit code.
int RunDev(std::span<const char* const> arguments);

// Returns the default data folder of `callboard dev`: `callboard` in the user's state folder.
absl::StatusOr<std::string> DefaultDataDir(const std::map<std::string, std::string>& environment);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DEV_H_
