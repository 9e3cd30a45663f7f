#include "libs/director/agent_view.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace callboard::director {
namespace {

// A time of the monotonic clock on the wall.
absl::Time OnTheWall(absl::Duration monotonic, Moment now) {
  return now.wall + (monotonic - now.monotonic);
}

std::pair<AgentState, std::string> StateOf(const Agent& agent, const AgentView& view,
                                           const core::LeaseOptions& lease, Moment now) {
  const std::string gone = agent.is_connected() ? "" : "; it is not connected";
  const std::string error =
      agent.unreachable_why.empty() ? "" : absl::StrCat(": ", agent.unreachable_why);
  if (agent.draining) return {AgentState::kDraining, absl::StrCat(agent.mark_why, gone)};
  if (agent.cordoned) return {AgentState::kCordoned, absl::StrCat(agent.mark_why, gone)};
  if (now.monotonic < agent.unanswered.until) {
    return {AgentState::kSuspect, absl::StrCat("it did not answer starts, ",
                                               agent.unanswered.failures, " times in a row", gone)};
  }
  if (now.monotonic < agent.unreachable.until) {
    return {AgentState::kSuspect,
            absl::StrCat("it could not be reached ", agent.unreachable.failures, " times in a row",
                         agent.is_connected() ? "" : error)};
  }
  if (!agent.is_connected()) {
    return {AgentState::kUnreachable, absl::StrCat("it is not connected", error)};
  }
  if (agent.leaving) return {AgentState::kDraining, "it shuts down"};
  const absl::Duration silence = now.monotonic - agent.heard_at;
  if (silence >= 2 * lease.heartbeat) {
    return {AgentState::kUnreachable,
            absl::StrCat("nothing was heard of it for ",
                         absl::FormatDuration(absl::Trunc(silence, absl::Seconds(1))))};
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
                        .used = lane.refused ? std::max(taken, lane.slots) : taken};
  }
  if (agent.heard_at > -absl::InfiniteDuration()) {
    view.last_seen_at = OnTheWall(agent.heard_at, now);
  }
  if (now.monotonic < agent.suspect_until()) {
    view.suspect_until = OnTheWall(agent.suspect_until(), now);
  }
  std::tie(view.state, view.why) = StateOf(agent, view, lease, now);
  return view;
}

}  // namespace callboard::director
