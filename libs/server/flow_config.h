// The settings of a Flow, and its metrics.

#ifndef CALLBOARD_LIBS_SERVER_FLOW_CONFIG_H_
#define CALLBOARD_LIBS_SERVER_FLOW_CONFIG_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "absl/status/statusor.h"
#include "callboard/config/v1/server.pb.h"
#include "libs/flow/flow.h"
#include "libs/flow/limits.h"

namespace callboard::server {

// Returns the limits for `config`, whose values are already merged from flags, file, environment
// and defaults.
flow::Limits LimitsFromConfig(const config::v1::FlowConfig& config, const flow::Machine& machine);

// Returns the options of a Flow with `lanes`, changed by the settings, with tokens or plain.
// Returns INVALID_ARGUMENT if a setting names an unknown lane.
absl::StatusOr<flow::FlowOptions> FlowOptionsFromConfig(const config::v1::FlowConfig& config,
                                                        const flow::Machine& machine,
                                                        std::vector<flow::LaneOptions> lanes);

// Returns the counts of all lanes, as callboard_flow_{waiting,pending,in_flight}{lane}.
std::vector<prometheus::MetricFamily> CollectFlowMetrics(const flow::Flow& flow);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_FLOW_CONFIG_H_
