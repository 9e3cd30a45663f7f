#include "libs/server/open_metrics.h"

#include <cmath>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace callboard::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  // 17 digits bring every number back; fewer do for most.
  std::string text = absl::StrFormat("%.15g", value);
  return absl::StrContains(text, '.') || absl::StrContains(text, 'e') ? text
                                                                      : absl::StrCat(text, ".0");
}

std::string Escaped(absl::string_view text) {
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
    // The suffix belongs to the sample, not to the family.
    const bool is_counter = family.type == MetricType::Counter;
    const std::string name(is_counter ? absl::StripSuffix(family.name, "_total") : family.name);
    absl::StrAppend(&text_, "# TYPE ", name, " ", TypeName(family.type), "\n# HELP ", name, " ",
                    Escaped(family.help), "\n");
    for (const ClientMetric& metric : family.metric) {
      if (family.type == MetricType::Histogram) {
        WriteHistogram(name, metric);
      } else {
        Sample(absl::StrCat(name, is_counter ? "_total" : ""), metric, "",
               Number(is_counter ? metric.counter.value : metric.gauge.value));
      }
    }
  }
  std::string End() { return absl::StrCat(text_, "# EOF\n"); }

 private:
  void WriteHistogram(const std::string& name, const ClientMetric& metric) {
    for (const ClientMetric::Bucket& bucket : metric.histogram.bucket) {
      std::string value = absl::StrCat(bucket.cumulative_count);
      const std::optional<Exemplar> exemplar = exemplars_.Find(name, bucket.upper_bound);
      if (metric.label.empty() && exemplar.has_value()) {
        absl::StrAppend(&value, " # {trace_id=\"", core::ToString(exemplar->trace_id), "\"} ",
                        Number(exemplar->value), " ",
                        absl::StrFormat("%.3f", absl::ToUnixMillis(exemplar->at) / 1000.0));
      }
      Sample(absl::StrCat(name, "_bucket"), metric, Number(bucket.upper_bound), value);
    }
    Sample(absl::StrCat(name, "_count"), metric, "", absl::StrCat(metric.histogram.sample_count));
    Sample(absl::StrCat(name, "_sum"), metric, "", Number(metric.histogram.sample_sum));
  }

  // `bound`: of a bucket, else empty.
  void Sample(const std::string& name, const ClientMetric& metric, const std::string& bound,
              const std::string& value) {
    std::string labels;
    const auto add = [&labels](absl::string_view label, absl::string_view text) {
      absl::StrAppend(&labels, labels.empty() ? "{" : ",", label, "=\"", Escaped(text), "\"");
    };
    for (const ClientMetric::Label& label : metric.label) add(label.name, label.value);
    if (!bound.empty()) add("le", bound);
    absl::StrAppend(&text_, name, labels, labels.empty() ? " " : "} ", value, "\n");
  }

  const Exemplars& exemplars_;
  std::string text_;
};

}  // namespace

bool TakesOpenMetrics(absl::string_view accept) {
  return absl::StrContains(accept, "application/openmetrics-text");
}

std::string OpenMetrics(const std::vector<MetricFamily>& families, const Exemplars& exemplars) {
  Writer writer(exemplars);
  for (const MetricFamily& family : families) writer.Write(family);
  return writer.End();
}

}  // namespace callboard::server
