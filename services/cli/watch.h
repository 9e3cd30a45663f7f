#ifndef CALLBOARD_SERVICES_CLI_WATCH_H_
#define CALLBOARD_SERVICES_CLI_WATCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "callboard/config/v1/cli.pb.h"

namespace callboard::cli {

// Shows tasks, all when none is named, and what happens to them on standard output: drawn in place
// on a terminal, else a line for each change. Ends when all of the named ones have ended: ABORTED
// when one did not complete. NOT_FOUND.
absl::Status WatchTasks(const config::v1::CliConfig& config,
                        const std::vector<std::string>& queue_ids);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_WATCH_H_
