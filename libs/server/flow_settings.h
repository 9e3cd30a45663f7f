// What settings make of threads and lanes inside a server.
#ifndef CALLBOARD_LIBS_SERVER_FLOW_SETTINGS_H_
#define CALLBOARD_LIBS_SERVER_FLOW_SETTINGS_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "absl/status/statusor.h"
#include "callboard/config/v1/server.pb.h"
#include "libs/flow/flow.h"
#include "libs/flow/flow_options.h"
#include "libs/flow/limits.h"

namespace callboard::server {

// The settings' precedence is behind them already: flag, file, environment, default.
flow::Limits LimitsFrom(const config::v1::FlowConfig& config, const flow::Machine& machine);

// `lanes`, with what the settings say of them, on tokens or plain. INVALID_ARGUMENT when a setting
// is about a lane that is not there.
absl::StatusOr<flow::FlowOptions> FlowOptionsFrom(const config::v1::FlowConfig& config,
                                                  const flow::Machine& machine,
                                                  std::vector<flow::LaneOptions> lanes);

// How full the lanes are, as callboard_flow_{waiting,pending,in_flight}{lane}.
std::vector<prometheus::MetricFamily> FlowMetrics(const flow::Flow& flow);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_FLOW_SETTINGS_H_
