#ifndef CALLBOARD_SERVICES_CLI_QUEUE_STATUS_H_
#define CALLBOARD_SERVICES_CLI_QUEUE_STATUS_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/queue.pb.h"

namespace callboard::cli {

// What the director says of its queue, as the settings want it written.
absl::StatusOr<std::string> ShowQueueStatus(const config::v1::CliConfig& config);

// Pauses and resumes all dispatching; says the same.
absl::StatusOr<std::string> PauseQueue(const config::v1::CliConfig& config, const std::string& why);
absl::StatusOr<std::string> ResumeQueue(const config::v1::CliConfig& config);

// `status` for people.
std::string QueueStatusTable(const v1::QueueStatus& status);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_QUEUE_STATUS_H_
