#ifndef CALLBOARD_SERVICES_AGENT_STATUS_PAGE_H_
#define CALLBOARD_SERVICES_AGENT_STATUS_PAGE_H_

#include <string>

#include "libs/agent/driver.h"

namespace callboard {

// The body of the agent's /status.
std::string StatusPage(const agent::AgentView& view);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_STATUS_PAGE_H_
