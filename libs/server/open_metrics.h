#ifndef CALLBOARD_LIBS_SERVER_OPEN_METRICS_H_
#define CALLBOARD_LIBS_SERVER_OPEN_METRICS_H_

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/server/exemplars.h"

namespace callboard::server {

inline constexpr char kOpenMetricsType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Whether who sends this Accept header takes OpenMetrics.
bool TakesOpenMetrics(absl::string_view accept);

// Metrics as OpenMetrics 1.0 writes them: unlike the text format of Prometheus, it has a place for
// exemplars.
std::string OpenMetrics(const std::vector<prometheus::MetricFamily>& families,
                        const Exemplars& exemplars);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_OPEN_METRICS_H_
