// Starts an agent: its task runner, its /status page and its ports.

#ifndef CALLBOARD_SERVICES_AGENT_START_AGENT_H_
#define CALLBOARD_SERVICES_AGENT_START_AGENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "callboard/config/v1/agent.pb.h"
#include "libs/agent/driver.h"
#include "libs/server/server.h"

namespace callboard {

// Returns the body of the agent's /status.
std::string StatusPage(const agent::AgentSnapshot& snapshot);

// Wires an agent together and opens its ports. `config` and `context` outlive it.
absl::StatusOr<std::unique_ptr<server::Server>> StartAgent(const config::v1::AgentConfig& config,
                                                           server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_START_AGENT_H_
