#include "libs/server/flow_config.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/text.h"
#include "libs/telemetry/metrics.h"

namespace callboard::server {
namespace {

using config::v1::FlowConfig;
using config::v1::LaneConfig;

// Returns nullopt for a lane that keeps its built-in priority.
std::optional<flow::Priority> ConvertPriority(LaneConfig::Priority priority) {
  switch (priority) {
    case LaneConfig::PRIORITY_LOW:
      return flow::Priority::kLow;
    case LaneConfig::PRIORITY_NORMAL:
      return flow::Priority::kNormal;
    case LaneConfig::PRIORITY_HIGH:
      return flow::Priority::kHigh;
    default:
      return std::nullopt;
  }
}

absl::Status UnknownLane(const std::string& name, const std::vector<flow::LaneOptions>& lanes) {
  std::vector<std::string> names;
  for (const flow::LaneOptions& lane : lanes) names.push_back(lane.name);
  const std::string nearest = base::Nearest(name, names);
  return absl::InvalidArgumentError(
      absl::StrCat("flow.lanes.", name, ": there is no such lane; ",
                   nearest.empty() ? absl::StrCat("the lanes are ", absl::StrJoin(names, ", "))
                                   : absl::StrCat("did you mean 'flow.lanes.", nearest, "'?")));
}

flow::Tokens TokensFromConfig(const FlowConfig& config, const flow::Machine& machine) {
  flow::Tokens tokens = flow::ComputeTokens(LimitsFromConfig(config, machine), machine);
  if (config.cpu_tokens() > 0) tokens.cpu = config.cpu_tokens();
  if (config.io_tokens() > 0) tokens.io = config.io_tokens();
  if (config.memory_tokens() > 0) tokens.memory = config.memory_tokens();
  return tokens;
}

}  // namespace

flow::Limits LimitsFromConfig(const FlowConfig& config, const flow::Machine& machine) {
  return flow::ComputeLimits({.threads = config.threads(),
                              .io_oversubscribe = config.io_oversubscribe(),
                              .low_resource = config.low_resource()},
                             machine);
}

absl::StatusOr<flow::FlowOptions> FlowOptionsFromConfig(const FlowConfig& config,
                                                        const flow::Machine& machine,
                                                        std::vector<flow::LaneOptions> lanes) {
  for (const auto& [name, settings] : config.lanes()) {
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&name = name](const auto& each) { return each.name == name; });
    if (lane == lanes.end()) return UnknownLane(name, lanes);
    lane->priority = ConvertPriority(settings.priority()).value_or(lane->priority);
    if (settings.max_pending() > 0) lane->limit.max_pending = settings.max_pending();
  }
  flow::FlowOptions options = {.lanes = std::move(lanes),
                               .starvation = absl::Milliseconds(config.starvation_ms())};
  if (config.enabled() && !config.low_resource())
    options.tokens = TokensFromConfig(config, machine);
  return options;
}

std::vector<prometheus::MetricFamily> CollectFlowMetrics(const flow::Flow& flow) {
  std::vector<prometheus::MetricFamily> families;
  const auto add = [&](const std::string& name, const std::string& help,
                       uint32_t flow::LaneCounts::*count) {
    families.push_back(telemetry::MakeGaugeFamily(absl::StrCat("callboard_flow_", name), help));
    for (const flow::Lane& lane : flow.lanes()) {
      telemetry::AddGaugeValue("lane", lane.name(), lane.counts().*count, families.back());
    }
  };
  add("waiting", "Callers inside the process that wait for a place in a lane.",
      &flow::LaneCounts::waiting);
  add("pending", "Jobs that wait to run in a lane.", &flow::LaneCounts::pending);
  add("in_flight", "Jobs that run in a lane.", &flow::LaneCounts::in_flight);
  return families;
}

}  // namespace callboard::server
