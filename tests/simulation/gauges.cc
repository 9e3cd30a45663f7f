#include "tests/simulation/gauges.h"

#include "absl/strings/str_cat.h"

namespace callboard::simulation {

std::string ToText(const director::QueueLevels& levels) {
  return absl::StrCat(levels.pending, " pending, ", levels.in_flight, " in flight, ",
                      levels.waiting, " waiting, ", levels.remembered_requests,
                      " remembered, oldest ", absl::FormatTime(levels.oldest));
}

std::string FindMismatch(const director::AgentCounts& shown,
                         const director::DirectorEngine& engine) {
  using director::AgentState;
  size_t known = 0;
  size_t connected = 0;
  size_t unoccupied = 0;
  size_t cordoned = 0;
  for (const auto& [name, agent] : engine.fleet().agents()) {
    ++known;
    if (agent.cordoned && !agent.draining) ++cordoned;
    if (agent.is_connected()) ++connected;
    if (agent.is_connected() && agent.holds.empty()) ++unoccupied;
  }
  size_t all = 0;
  for (const auto& [state, count] : shown) all += count;
  const auto of = [&shown](AgentState state) {
    const auto found = shown.find(state);
    return found == shown.end() ? 0 : found->second;
  };
  if (all != known) return absl::StrCat("gauges show ", all, " agents of ", known);
  if (of(AgentState::kCordoned) != cordoned) return "gauges show other agents as cordoned";
  if (of(AgentState::kIdle) > unoccupied) return "gauges show an agent as idle that has a task";
  if (of(AgentState::kIdle) + of(AgentState::kBusy) > connected) {
    return "gauges show an agent as there that is not connected";
  }
  return "";
}

}  // namespace callboard::simulation
