#include "libs/telemetry/metrics.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"

namespace callboard::telemetry {

// ---- Exemplars and gauges -----------------------------------------------------------------------

namespace {

// As in Prometheus, upper bounds are inclusive.
size_t BucketIndex(const std::vector<double>& bounds, double value) {
  return static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), value) -
                             bounds.begin());
}

}  // namespace

void Exemplars::AddHistogram(const std::string& histogram, std::vector<double> bounds) {
  base::MutexLock lock(mutex_);
  const size_t buckets = bounds.size() + 1;
  histograms_[histogram] = {std::move(bounds), std::vector<std::optional<Exemplar>>(buckets)};
}

void Exemplars::Update(absl::string_view histogram, const Exemplar& exemplar) {
  base::MutexLock lock(mutex_);
  const auto found = histograms_.find(histogram);
  CHECK(found != histograms_.end()) << histogram;
  Buckets& buckets = found->second;
  buckets.last[BucketIndex(buckets.bounds, exemplar.value)] = exemplar;
}

std::optional<Exemplar> Exemplars::Find(absl::string_view histogram, double bound) const {
  base::MutexLock lock(mutex_);
  const auto found = histograms_.find(histogram);
  if (found == histograms_.end()) return std::nullopt;
  return found->second.last[BucketIndex(found->second.bounds, bound)];
}

prometheus::MetricFamily MakeGaugeFamily(const std::string& name, const std::string& help) {
  return {.name = name, .help = help, .type = prometheus::MetricType::Gauge, .metric = {}};
}

void AddGaugeValue(const std::string& label, const std::string& value, double number,
                   prometheus::MetricFamily& gauges) {
  prometheus::ClientMetric metric;
  metric.label = {{label, value}};
  metric.gauge.value = number;
  gauges.metric.push_back(std::move(metric));
}

prometheus::MetricFamily MakeGauge(const std::string& name, const std::string& help,
                                   double number) {
  prometheus::MetricFamily gauges = MakeGaugeFamily(name, help);
  gauges.metric.emplace_back().gauge.value = number;
  return gauges;
}

// ---- OpenMetrics --------------------------------------------------------------------------------

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::string FormatNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  // 15 digits: 17 would represent every number exactly, but 0.1 would become 0.10000000000000001.
  std::string text = absl::StrFormat("%.15g", value);
  return absl::StrContains(text, '.') || absl::StrContains(text, 'e') ? text
                                                                      : absl::StrCat(text, ".0");
}

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\n", "\\n"}, {"\"", "\\\""}});
}

const char* TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "unknown";
  }
}

class Writer {
 public:
  explicit Writer(const Exemplars& exemplars) : exemplars_(exemplars) {}

  void Write(const MetricFamily& family) {
    // In OpenMetrics, the sample has the suffix but the family does not.
    const bool is_counter = family.type == MetricType::Counter;
    const std::string name(is_counter ? absl::StripSuffix(family.name, "_total") : family.name);
    absl::StrAppend(&text_, "# TYPE ", name, " ", TypeName(family.type), "\n# HELP ", name, " ",
                    Escape(family.help), "\n");
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        WriteHistogram(name, metric);
      } else {
        WriteSample(absl::StrCat(name, is_counter ? "_total" : ""), metric, "",
                    FormatNumber(is_counter ? metric.counter.value : metric.gauge.value));
      }
    }
  }
  std::string Finish() { return absl::StrCat(text_, "# EOF\n"); }

 private:
  void WriteHistogram(const std::string& name, const ClientMetric& metric) {
    for (const ClientMetric::Bucket& bucket : metric.histogram.bucket) {
      std::string value = absl::StrCat(bucket.cumulative_count);
      const std::optional<Exemplar> exemplar = exemplars_.Find(name, bucket.upper_bound);
      if (metric.label.empty() && exemplar.has_value()) {
        absl::StrAppend(&value, " # {trace_id=\"", core::ToString(exemplar->trace_id), "\"} ",
                        FormatNumber(exemplar->value), " ",
                        absl::StrFormat("%.3f", absl::ToUnixMillis(exemplar->at) / 1000.0));
      }
      WriteSample(absl::StrCat(name, "_bucket"), metric, FormatNumber(bucket.upper_bound), value);
    }
    WriteSample(absl::StrCat(name, "_count"), metric, "",
                absl::StrCat(metric.histogram.sample_count));
    WriteSample(absl::StrCat(name, "_sum"), metric, "", FormatNumber(metric.histogram.sample_sum));
  }

  // Writes one sample. `bound` is the upper bound of a bucket, or empty.
  void WriteSample(const std::string& name, const ClientMetric& metric, const std::string& bound,
                   const std::string& value) {
    std::string labels;
    const auto add = [&labels](absl::string_view label, absl::string_view text) {
      absl::StrAppend(&labels, labels.empty() ? "{" : ",", label, "=\"", Escape(text), "\"");
    };
    for (const ClientMetric::Label& label : metric.label) add(label.name, label.value);
    if (!bound.empty()) add("le", bound);
    absl::StrAppend(&text_, name, labels, labels.empty() ? " " : "} ", value, "\n");
  }

  const Exemplars& exemplars_;
  std::string text_;
};

}  // namespace

bool AcceptsOpenMetrics(absl::string_view accept) {
  return absl::StrContains(accept, "application/openmetrics-text");
}

std::string SerializeOpenMetrics(const std::vector<MetricFamily>& families,
                                 const Exemplars& exemplars) {
  Writer writer(exemplars);
  for (const MetricFamily& family : families) writer.Write(family);
  return writer.Finish();
}

// ---- CommitMetrics ------------------------------------------------------------------------------

namespace {

using prometheus::Histogram;

// In seconds: a fast disk, a slow one, and one that stalls.
const Histogram::BucketBoundaries kSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                              0.025,  0.05,    0.1,    0.25,  1,      5};
const Histogram::BucketBoundaries kBatchSizes = {1,   2,   4,   8,    16,   32,  64,
                                                 128, 256, 512, 1024, 2048, 4096};

}  // namespace

CommitMetrics::CommitMetrics(prometheus::Registry& metrics)
    : seconds_(prometheus::BuildHistogram()
                   .Name("callboard_commit_seconds")
                   .Help("Time to commit a batch of records to disk.")
                   .Register(metrics)
                   .Add({}, kSeconds)),
      batch_size_(prometheus::BuildHistogram()
                      .Name("callboard_commit_batch_size")
                      .Help("Records that were committed in one batch.")
                      .Register(metrics)
                      .Add({}, kBatchSizes)) {}

void CommitMetrics::Observe(size_t records, absl::Duration took) {
  seconds_.Observe(absl::ToDoubleSeconds(took));
  batch_size_.Observe(static_cast<double>(records));
}

}  // namespace callboard::telemetry
