#ifndef CALLBOARD_LIBS_DIRECTOR_AGENT_VIEW_H_
#define CALLBOARD_LIBS_DIRECTOR_AGENT_VIEW_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/session.h"
#include "libs/director/fleet.h"
#include "libs/director/moment.h"

namespace callboard::director {

enum class AgentState { kIdle, kBusy, kDraining, kCordoned, kSuspect, kUnreachable };

// An agent at one moment, as its users see it.
struct AgentView {
  std::string name = {};
  // grpc://host:port; empty before it was heard of.
  std::string url = {};
  std::string instance_id = {};
  AgentState state = AgentState::kIdle;
  // Why it takes no tasks, for people; empty when it does.
  std::string why = {};
  std::map<std::string, std::string> labels = {};
  core::LaneLoads lanes = {};
  // Absent when it was not since the director began.
  std::optional<absl::Time> last_seen_at = {};
  std::optional<absl::Time> suspect_until = {};
  std::vector<core::QueueId> running = {};
};

// What somebody asked for of an agent, or found out about it, is said first: it stays when the
// agent goes.
AgentView ViewOf(const Agent& agent, const core::LeaseOptions& lease, Moment now);

// Agents to be listed, by name: so many behind this one.
struct AgentQuery {
  std::string after = {};
  size_t page_size = 50;
};
struct AgentPage {
  std::vector<AgentView> agents = {};
  bool has_more = false;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_AGENT_VIEW_H_
