#include "libs/telemetry/metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

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

}  // namespace
}  // namespace callboard::telemetry
