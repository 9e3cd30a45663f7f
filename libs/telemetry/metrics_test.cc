#include "libs/telemetry/metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <limits>

namespace callboard::telemetry {
namespace {

TEST(GaugeTest, GaugeWithoutLabelsIsOneLine) {
  EXPECT_EQ(prometheus::TextSerializer().Serialize({MakeGauge("depth", "Depth.", 3)}),
            "# HELP depth Depth.\n# TYPE depth gauge\ndepth 3\n");
}

TEST(GaugeTest, EachLabelValueIsALine) {
  prometheus::MetricFamily gauges = MakeGaugeFamily("slots", "Slots.");
  AddGaugeValue("lane", "default", 1, gauges);
  AddGaugeValue("lane", "fast", 2, gauges);
  EXPECT_EQ(prometheus::TextSerializer().Serialize({gauges}),
            "# HELP slots Slots.\n# TYPE slots gauge\nslots{lane=\"default\"} 1\n"
            "slots{lane=\"fast\"} 2\n");
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(ExemplarsTest, LastExemplarOfEachBucketIsKept) {
  Exemplars exemplars;
  exemplars.AddHistogram("a", {1, 10});
  exemplars.Update("a", {core::TraceId(), 0.5, {}});
  exemplars.Update("a", {core::TraceId(), 1, {}});
  exemplars.Update("a", {core::TraceId(), 100, {}});
  EXPECT_EQ(exemplars.Find("a", 1)->value, 1);
  EXPECT_FALSE(exemplars.Find("a", 10).has_value());
  EXPECT_EQ(exemplars.Find("a", kInfinity)->value, 100);
}

TEST(ExemplarsTest, UnknownHistogramHasNoExemplar) {
  EXPECT_FALSE(Exemplars().Find("b", 1).has_value());
}

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

const core::TraceId kTrace = *core::ParseTraceId("4bf92f3577b34da6a3ce929d0e0e4736");

TEST(OpenMetricsTest, AcceptHeaderOfPrometheusSelectsOpenMetrics) {
  EXPECT_TRUE(AcceptsOpenMetrics(
      "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4"));
  EXPECT_FALSE(AcceptsOpenMetrics("text/plain"));
  EXPECT_FALSE(AcceptsOpenMetrics(""));
}

TEST(OpenMetricsTest, TextEndsWithTheEofLine) {
  EXPECT_EQ(SerializeOpenMetrics({}, Exemplars()), "# EOF\n");
}

TEST(OpenMetricsTest, CounterSuffixIsOnTheSampleOnlyAndTextIsEscaped) {
  MetricFamily family;
  family.name = "callboard_tasks_total";
  family.help = "Tasks.";
  family.type = MetricType::Counter;
  ClientMetric metric;
  metric.label = {{"state", "a\"b\\c\nd"}, {"reason", ""}};
  metric.counter.value = 3;
  family.metric.push_back(metric);
  EXPECT_EQ(SerializeOpenMetrics({family}, Exemplars()),
            "# TYPE callboard_tasks counter\n"
            "# HELP callboard_tasks Tasks.\n"
            "callboard_tasks_total{state=\"a\\\"b\\\\c\\nd\",reason=\"\"} 3.0\n"
            "# EOF\n");
}

TEST(OpenMetricsTest, GaugeHasItsValue) {
  EXPECT_EQ(SerializeOpenMetrics({MakeGauge("callboard_x", "X.", 0.5)}, Exemplars()),
            "# TYPE callboard_x gauge\n# HELP callboard_x X.\ncallboard_x 0.5\n# EOF\n");
}

TEST(OpenMetricsTest, BucketShowsItsLastExemplar) {
  MetricFamily family;
  family.name = "callboard_run_seconds";
  family.help = "Runs.";
  family.type = MetricType::Histogram;
  ClientMetric metric;
  metric.histogram.sample_count = 3;
  metric.histogram.sample_sum = 7.25;
  metric.histogram.bucket = {{1, 0.1}, {2, 1}, {3, std::numeric_limits<double>::infinity()}};
  family.metric.push_back(metric);
  Exemplars exemplars;
  exemplars.AddHistogram("callboard_run_seconds", {0.1, 1});
  const absl::Time at = absl::FromUnixMillis(1'700'000'000'123);
  exemplars.Update("callboard_run_seconds", {core::TraceId(), 0.1, at});
  exemplars.Update("callboard_run_seconds", {kTrace, 0.1, at});
  exemplars.Update("callboard_run_seconds", {kTrace, 5, at});
  EXPECT_EQ(SerializeOpenMetrics({family}, exemplars),
            "# TYPE callboard_run_seconds histogram\n"
            "# HELP callboard_run_seconds Runs.\n"
            "callboard_run_seconds_bucket{le=\"0.1\"} 1 "
            "# {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 0.1 1700000000.123\n"
            "callboard_run_seconds_bucket{le=\"1.0\"} 2\n"
            "callboard_run_seconds_bucket{le=\"+Inf\"} 3 "
            "# {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\"} 5.0 1700000000.123\n"
            "callboard_run_seconds_count 3\n"
            "callboard_run_seconds_sum 7.25\n"
            "# EOF\n");
}

}  // namespace
}  // namespace callboard::telemetry
