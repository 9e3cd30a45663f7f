// Metrics that the client library lacks: exemplars, gauges that are computed at each scrape, the
// OpenMetrics format, and the metrics of commits.

#ifndef CALLBOARD_LIBS_TELEMETRY_METRICS_H_
#define CALLBOARD_LIBS_TELEMETRY_METRICS_H_

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/core/trace.h"

namespace callboard::telemetry {

// A measured value and the trace that it belongs to.
struct Exemplar {
  core::TraceId trace_id;
  double value = 0;
  absl::Time at;
};

// Holds the last exemplar of each bucket, for histograms without labels. Thread-safe.
class Exemplars {
 public:
  // Adds a histogram. `bounds` are the upper bounds of its buckets, in ascending order.
  void AddHistogram(const std::string& histogram, std::vector<double> bounds);
  // Replaces the exemplar of the bucket that the value belongs to.
  // REQUIRES: `histogram` was added.
  void Update(absl::string_view histogram, const Exemplar& exemplar);
  // Returns the exemplar of the bucket with this upper bound, or nullopt if it has none.
  std::optional<Exemplar> Find(absl::string_view histogram, double bound) const;

 private:
  struct Buckets {
    std::vector<double> bounds;
    // One per bound, and one for larger values.
    std::vector<std::optional<Exemplar>> last;
  };

  mutable base::Mutex mutex_;
  std::map<std::string, Buckets, std::less<>> histograms_ ABSL_GUARDED_BY(mutex_);
};

// Returns a family of gauges without values.
prometheus::MetricFamily MakeGaugeFamily(const std::string& name, const std::string& help);
// Adds a gauge with the label `label`=`value` to `gauges`.
void AddGaugeValue(const std::string& label, const std::string& value, double number,
                   prometheus::MetricFamily& gauges);

// Returns a family with one gauge, which has no labels.
prometheus::MetricFamily MakeGauge(const std::string& name, const std::string& help, double number);

inline constexpr char kOpenMetricsContentType[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

// Returns whether a client with this Accept header accepts OpenMetrics.
bool AcceptsOpenMetrics(absl::string_view accept);

// Serializes metrics as OpenMetrics 1.0, which has exemplars, unlike Prometheus's text format.
std::string SerializeOpenMetrics(const std::vector<prometheus::MetricFamily>& families,
                                 const Exemplars& exemplars);

// Metrics of commits: duration and batch size. Thread-safe.
class CommitMetrics {
 public:
  // `metrics` outlives it.
  explicit CommitMetrics(prometheus::Registry& metrics);

  // Counts a batch of `records` that was committed in `took`.
  void Observe(size_t records, absl::Duration took);

 private:
  // Owned by the registry.
  prometheus::Histogram& seconds_;
  prometheus::Histogram& batch_size_;
};

}  // namespace callboard::telemetry

#endif  // CALLBOARD_LIBS_TELEMETRY_METRICS_H_
