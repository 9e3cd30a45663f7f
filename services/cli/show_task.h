#ifndef CALLBOARD_SERVICES_CLI_SHOW_TASK_H_
#define CALLBOARD_SERVICES_CLI_SHOW_TASK_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"

namespace callboard::cli {

// Where a task stands and how it came there, as the settings want it written. A director that is
// too old to tell the latter is no error. NOT_FOUND.
absl::StatusOr<std::string> ShowTask(const config::v1::CliConfig& config,
                                     const std::string& queue_id);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_SHOW_TASK_H_
