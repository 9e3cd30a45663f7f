#include "libs/server/gauge.h"

#include <utility>

namespace callboard::server {

prometheus::MetricFamily Gauges(const std::string& name, const std::string& help) {
  return {.name = name, .help = help, .type = prometheus::MetricType::Gauge, .metric = {}};
}

void AddGauge(const std::string& label, const std::string& value, double number,
              prometheus::MetricFamily& gauges) {
  prometheus::ClientMetric metric;
  metric.label = {{label, value}};
  metric.gauge.value = number;
  gauges.metric.push_back(std::move(metric));
}

prometheus::MetricFamily Gauge(const std::string& name, const std::string& help, double number) {
  prometheus::MetricFamily gauges = Gauges(name, help);
  gauges.metric.emplace_back().gauge.value = number;
  return gauges;
}

}  // namespace callboard::server
