// Starts an agent: its task runner, its /status page and its ports.

#ifndef CALLBOARD_SERVICES_AGENT_START_AGENT_H_
#define CALLBOARD_SERVICES_AGENT_START_AGENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "callboard/config/v1/agent.pb.h"
#include "libs/agent/driver.h"
#include "libs/ports/environment.h"
#include "libs/server/server.h"

namespace callboard {

// Returns whether the settings define how to run tasks. The runner `exec` needs a command.
bool HasCommand(const config::v1::AgentConfig& config);

// Returns a factory for the runner that the settings select; a no-op runner if they define no
// command. `clock` outlives the runner.
ports::TaskRunnerFactory MakeRunnerFactory(const config::v1::AgentConfig& config,
                                           const ports::Clock& clock);

// Returns the body of the agent's /status.
std::string StatusPage(const agent::AgentView& view);

// Wires an agent together and opens its ports. `config` and `context` outlive it.
absl::StatusOr<std::unique_ptr<server::Server>> StartAgent(const config::v1::AgentConfig& config,
                                                           server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_START_AGENT_H_
