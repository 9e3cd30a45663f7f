// Agents as their users see them, and as they announce themselves.
#ifndef CALLBOARD_SERVICES_DIRECTOR_AGENT_LIST_H_
#define CALLBOARD_SERVICES_DIRECTOR_AGENT_LIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/v1/fleet.pb.h"
#include "libs/core/session.h"
#include "libs/director/agent_view.h"
#include "libs/wire/enum_pair.h"

namespace callboard {

inline constexpr wire::EnumPair<director::AgentState, v1::Agent::State> kAgentStates[] = {
    {director::AgentState::kIdle, v1::Agent::STATE_IDLE},
    {director::AgentState::kBusy, v1::Agent::STATE_BUSY},
    {director::AgentState::kDraining, v1::Agent::STATE_DRAINING},
    {director::AgentState::kCordoned, v1::Agent::STATE_CORDONED},
    {director::AgentState::kSuspect, v1::Agent::STATE_SUSPECT},
    {director::AgentState::kUnreachable, v1::Agent::STATE_UNREACHABLE},
};

// Each is INVALID_ARGUMENT with the name of every wrong field, its limit and its size.
absl::StatusOr<core::AgentAnnounced> AnnouncementFrom(const v1::AnnounceAgentRequest& request);
absl::StatusOr<director::AgentQuery> AgentQueryFrom(const v1::ListAgentsRequest& request);
// Why an agent is to be drained.
absl::StatusOr<std::string> WhyFrom(const v1::DrainAgentRequest& request);

v1::Agent ToProto(const director::AgentView& agent);
// A page as its users see it; it ends early where it would become too large for a message.
v1::ListAgentsResponse ListResponse(const director::AgentPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_AGENT_LIST_H_
