#ifndef CALLBOARD_SERVICES_SCHEDULER_START_SCHEDULER_H_
#define CALLBOARD_SERVICES_SCHEDULER_START_SCHEDULER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "callboard/config/v1/scheduler.pb.h"
#include "libs/server/server.h"

namespace callboard {

// Wires a scheduler together and opens its ports. `config` and `context` outlive it.
absl::StatusOr<std::unique_ptr<server::Server>> StartScheduler(
    const config::v1::SchedulerConfig& config, server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_SCHEDULER_START_SCHEDULER_H_
