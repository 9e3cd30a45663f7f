#ifndef CALLBOARD_SERVICES_AGENT_AGENT_RUNNER_H_
#define CALLBOARD_SERVICES_AGENT_AGENT_RUNNER_H_

#include "callboard/config/v1/agent.pb.h"
#include "libs/agent/driver.h"
#include "libs/ports/clock.h"

namespace callboard {

// Whether the settings say how to run tasks: the runner `exec` needs a command.
bool HasCommand(const config::v1::AgentConfig& config);

// What runs tasks, as the settings say; nothing where they do not. `clock` outlives the runner.
ports::MakeRunner RunnerFrom(const config::v1::AgentConfig& config, const ports::Clock& clock);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_AGENT_RUNNER_H_
