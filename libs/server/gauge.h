// Gauges that are read when they are asked for, and kept by no registry.
#ifndef CALLBOARD_LIBS_SERVER_GAUGE_H_
#define CALLBOARD_LIBS_SERVER_GAUGE_H_

#include <prometheus/metric_family.h>

#include <string>

namespace callboard::server {

// Without values yet.
prometheus::MetricFamily Gauges(const std::string& name, const std::string& help);
// Adds the value that has `value` as its `label`.
void AddGauge(const std::string& label, const std::string& value, double number,
              prometheus::MetricFamily& gauges);

// One without labels.
prometheus::MetricFamily Gauge(const std::string& name, const std::string& help, double number);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_GAUGE_H_
