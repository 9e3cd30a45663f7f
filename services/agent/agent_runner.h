#ifndef CALLBOARD_SERVICES_AGENT_AGENT_RUNNER_H_
#define CALLBOARD_SERVICES_AGENT_AGENT_RUNNER_H_

#include "absl/status/statusor.h"
#include "callboard/config/v1/agent.pb.h"
#include "libs/agent/driver.h"
#include "libs/server/server.h"

namespace callboard {

// What runs tasks, as the settings say. INVALID_ARGUMENT when they cannot be followed.
absl::StatusOr<agent::AgentDriver::MakeRunner> RunnerFrom(const config::v1::AgentConfig& config,
                                                          server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_AGENT_RUNNER_H_
