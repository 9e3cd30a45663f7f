#include "libs/director/fleet.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::director {

Agent& Fleet::Get(const std::string& name) {
  return agents_.try_emplace(name, Agent{.name = name}).first->second;
}

Agent* Fleet::Find(const std::string& name) {
  const auto found = agents_.find(name);
  return found == agents_.end() ? nullptr : &found->second;
}

Agent* Fleet::FindBySession(core::AgentSessionId session) {
  const auto found = by_session_.find(session);
  return found == by_session_.end() ? nullptr : found->second;
}

void Fleet::OpenSession(Agent& agent, core::AgentSessionId session, Moment now) {
  EndSession(agent);
  agent.session = session;
  agent.has_opened = true;
  agent.last_seen_at = now.monotonic;
  by_session_[session] = &agent;
}

void Fleet::EndSession(Agent& agent) {
  if (!agent.is_connected()) return;
  by_session_.erase(agent.session);
  agent.session = core::AgentSessionId();
}

void Fleet::Hold(const std::string& agent, core::QueueId task, const std::string& lane) {
  Agent& holder = Get(agent);
  CHECK(holder.holds.insert(task).second);
  ++holder.lanes[lane].held;
}

void Fleet::Release(const std::string& agent, core::QueueId task, const std::string& lane) {
  Agent& holder = Get(agent);
  CHECK_EQ(holder.holds.erase(task), 1u);
  CHECK_GT(holder.lanes[lane].held, 0u);
  --holder.lanes[lane].held;
}

bool Fleet::MeetsDemand(const Agent& agent, const Demand& demand) const {
  const auto lane = agent.lanes.find(demand.lane);
  if (lane == agent.lanes.end() || lane->second.slots == 0) return false;
  const bool has_labels =
      std::all_of(demand.labels.begin(), demand.labels.end(), [&agent](const auto& label) {
        const auto found = agent.labels.find(label.first);
        return found != agent.labels.end() && found->second == label.second;
      });
  return has_labels && std::includes(agent.features.begin(), agent.features.end(),
                                     demand.features.begin(), demand.features.end());
}

bool Fleet::Serves(const Agent& agent, const Demand& demand) const {
  if (!agent.is_connected() || !MeetsDemand(agent, demand)) return false;
  if (demand.session_agent.empty() || demand.session_agent == agent.name) return true;
  // Another agent may take over the session only when its owner cannot serve it.
  const auto owner = agents_.find(demand.session_agent);
  return owner == agents_.end() || !owner->second.keeps_sessions() ||
         !MeetsDemand(owner->second, demand);
}

absl::string_view Fleet::WhyUnavailable(const Agent& agent, Moment now) const {
  if (!agent.is_connected()) return "not connected";
  if (agent.draining || agent.leaving) return "draining";
  if (agent.cordoned) return "cordoned";
  if (now.monotonic < agent.suspect_until()) return "suspect";
  if (now.monotonic >= agent.last_seen_at + 2 * lease_.heartbeat) return "silent";
  return "";
}

bool Fleet::TakesTasks(const Agent& agent, Moment now) const {
  return WhyUnavailable(agent, now).empty();
}

std::string Fleet::WhyNot(const Agent& agent, const Demand& demand, Moment now) const {
  if (agent.is_connected()) {
    const auto lane = agent.lanes.find(demand.lane);
    if (lane == agent.lanes.end() || lane->second.slots == 0) {
      return absl::StrCat("has no lane ", demand.lane);
    }
    for (const auto& [label, value] : demand.labels) {
      const auto found = agent.labels.find(label);
      if (found == agent.labels.end() || found->second != value) {
        return absl::StrCat("lacks the label ", label, "=", value);
      }
    }
    for (const std::string& feature : demand.features) {
      if (!agent.features.contains(feature)) return absl::StrCat("lacks the feature ", feature);
    }
  }
  if (const absl::string_view idle = WhyUnavailable(agent, now); !idle.empty())
    return std::string(idle);
  if (!Serves(agent, demand))
    return absl::StrCat("the task's session belongs to agent ", demand.session_agent);
  return agent.lanes.at(demand.lane).has_free_slot() ? "" : "busy";
}

std::string Fleet::WhyNoAgent(const std::vector<Agent*>& agents, Moment now) const {
  if (agents.empty()) return "no connected agent serves the lane and labels of the task";
  const bool any_busy = std::any_of(agents.begin(), agents.end(), [this, now](const Agent* agent) {
    return TakesTasks(*agent, now);
  });
  return any_busy ? "every agent that could take the task is busy"
                  : "every agent that could take the task is draining, cordoned, suspect or silent";
}

uint32_t Fleet::TotalSlots() const {
  uint64_t slots = 0;
  for (const auto& [name, agent] : agents_) {
    if (!agent.is_connected()) continue;
    for (const auto& [lane_name, lane] : agent.lanes) slots += lane.slots;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(slots, std::numeric_limits<uint32_t>::max()));
}

void Fleet::ForgetSilent(Moment now) {
  for (auto agent = agents_.begin(); agent != agents_.end();) {
    const bool forget = agent->second.is_forgettable() &&
                        agent->second.last_seen_at + agent->second.retention() <= now.monotonic;
    agent = forget ? agents_.erase(agent) : std::next(agent);
  }
}

namespace {

// Converts a time of the monotonic clock to the wall clock.
absl::Time ToWallTime(absl::Duration monotonic, Moment now) {
  return now.wall + (monotonic - now.monotonic);
}

std::pair<AgentState, std::string> StateOf(const Agent& agent, const AgentView& view,
                                           const core::LeaseOptions& lease, Moment now) {
  const std::string gone = agent.is_connected() ? "" : "; not connected";
  const std::string error =
      agent.unreachable_why.empty() ? "" : absl::StrCat(": ", agent.unreachable_why);
  if (agent.draining) return {AgentState::kDraining, absl::StrCat(agent.mark_why, gone)};
  if (agent.cordoned) return {AgentState::kCordoned, absl::StrCat(agent.mark_why, gone)};
  if (now.monotonic < agent.unanswered.until) {
    return {AgentState::kSuspect,
            absl::StrCat("did not answer ", agent.unanswered.failures, " starts in a row", gone)};
  }
  if (now.monotonic < agent.unreachable.until) {
    return {AgentState::kSuspect,
            absl::StrCat("could not be reached ", agent.unreachable.failures, " times in a row",
                         agent.is_connected() ? "" : error)};
  }
  if (!agent.is_connected()) {
    return {AgentState::kUnreachable, absl::StrCat("not connected", error)};
  }
  if (agent.leaving) return {AgentState::kDraining, "shutting down"};
  const absl::Duration silence = now.monotonic - agent.last_seen_at;
  if (silence >= 2 * lease.heartbeat) {
    return {
        AgentState::kUnreachable,
        absl::StrCat("silent for ", absl::FormatDuration(absl::Trunc(silence, absl::Seconds(1))))};
  }
  const bool is_busy = std::any_of(view.lanes.begin(), view.lanes.end(),
                                   [](const auto& lane) { return lane.second.used > 0; });
  return {is_busy ? AgentState::kBusy : AgentState::kIdle, ""};
}

}  // namespace

AgentView ViewOf(const Agent& agent, const core::LeaseOptions& lease, Moment now) {
  AgentView view = {.name = agent.name,
                    .url = agent.url,
                    .instance_id = agent.instance_id,
                    .labels = agent.labels,
                    .running = {agent.holds.begin(), agent.holds.end()}};
  for (const auto& [name, lane] : agent.lanes) {
    const uint32_t taken = std::max(lane.reported, lane.held);
    view.lanes[name] = {.slots = lane.slots,
                        .used = lane.answered_busy ? std::max(taken, lane.slots) : taken};
  }
  if (agent.last_seen_at > -absl::InfiniteDuration()) {
    view.last_seen_at = ToWallTime(agent.last_seen_at, now);
  }
  if (now.monotonic < agent.suspect_until()) {
    view.suspect_until = ToWallTime(agent.suspect_until(), now);
  }
  std::tie(view.state, view.why) = StateOf(agent, view, lease, now);
  return view;
}

}  // namespace callboard::director
