#include "libs/director/fleet.h"

#include <algorithm>
#include <limits>

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

Agent* Fleet::FindBySession(core::SessionId session) {
  const auto found = by_session_.find(session);
  return found == by_session_.end() ? nullptr : found->second;
}

void Fleet::OpenSession(Agent& agent, core::SessionId session, Moment now) {
  EndSession(agent);
  agent.session = session;
  agent.has_opened = true;
  agent.heard_at = now.monotonic;
  by_session_[session] = &agent;
}

void Fleet::EndSession(Agent& agent) {
  if (!agent.is_connected()) return;
  by_session_.erase(agent.session);
  agent.session = core::SessionId();
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

bool Fleet::IsAble(const Agent& agent, const Demand& demand) const {
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
  if (!agent.is_connected() || !IsAble(agent, demand)) return false;
  if (demand.session_agent.empty() || demand.session_agent == agent.name) return true;
  // Another may have the session only once its own agent cannot.
  const auto owner = agents_.find(demand.session_agent);
  return owner == agents_.end() || !owner->second.keeps_sessions() ||
         !IsAble(owner->second, demand);
}

absl::string_view Fleet::WhyIdle(const Agent& agent, Moment now) const {
  if (!agent.is_connected()) return "not connected";
  if (agent.draining || agent.leaving) return "draining";
  if (agent.cordoned) return "cordoned";
  if (now.monotonic < agent.suspect_until()) return "suspect";
  if (now.monotonic >= agent.heard_at + 2 * lease_.heartbeat) return "silent";
  return "";
}

bool Fleet::TakesTasks(const Agent& agent, Moment now) const { return WhyIdle(agent, now).empty(); }

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
  if (const absl::string_view idle = WhyIdle(agent, now); !idle.empty()) return std::string(idle);
  if (!Serves(agent, demand)) return absl::StrCat("its session is on ", demand.session_agent);
  return agent.lanes.at(demand.lane).has_free_slot() ? "" : "busy";
}

std::string Fleet::WhyNobody(const std::vector<Agent*>& agents, Moment now) const {
  if (agents.empty()) return "no connected agent serves its lane and labels";
  const bool any_busy = std::any_of(agents.begin(), agents.end(), [this, now](const Agent* agent) {
    return TakesTasks(*agent, now);
  });
  return any_busy ? "every agent that could take it is busy"
                  : "every agent that could take it is draining, cordoned, suspect or silent";
}

uint32_t Fleet::SlotsInAll() const {
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
                        agent->second.heard_at + agent->second.memory() <= now.monotonic;
    agent = forget ? agents_.erase(agent) : std::next(agent);
  }
}

}  // namespace callboard::director
