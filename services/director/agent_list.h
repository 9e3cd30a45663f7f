// Agents as their users see them, and as they announce themselves.
#ifndef CALLBOARD_SERVICES_DIRECTOR_AGENT_LIST_H_
#define CALLBOARD_SERVICES_DIRECTOR_AGENT_LIST_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/v1/fleet.pb.h"
#include "libs/director/agent_view.h"

namespace callboard {

// Who announces itself, and where it listens: host:port.
struct Announcement {
  std::string name;
  std::string instance_id;
  std::string address;

  std::string url() const { return "grpc://" + address; }
};

// Each is INVALID_ARGUMENT with the name of every wrong field, its limit and its size.
absl::StatusOr<Announcement> AnnouncementFrom(const v1::AnnounceAgentRequest& request);
absl::StatusOr<director::AgentQuery> AgentQueryFrom(const v1::ListAgentsRequest& request);
// Why an agent is to be drained.
absl::StatusOr<std::string> WhyFrom(const v1::DrainAgentRequest& request);

v1::Agent ToProto(const director::AgentView& agent);
// A page as its users see it; it ends early where it would become too large for a message.
v1::ListAgentsResponse ListResponse(const director::AgentPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_AGENT_LIST_H_
