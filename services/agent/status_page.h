#ifndef CALLBOARD_SERVICES_AGENT_STATUS_PAGE_H_
#define CALLBOARD_SERVICES_AGENT_STATUS_PAGE_H_

#include <string>

#include "callboard/config/v1/agent.pb.h"

namespace callboard {

// The body of the agent's /status.
std::string StatusPage(const config::v1::AgentConfig& config);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_STATUS_PAGE_H_
