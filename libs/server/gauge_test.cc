#include "libs/server/gauge.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

namespace callboard::server {
namespace {

TEST(GaugeTest, OneWithoutLabelsIsOneLine) {
  EXPECT_EQ(prometheus::TextSerializer().Serialize({Gauge("depth", "How deep.", 3)}),
            "# HELP depth How deep.\n# TYPE depth gauge\ndepth 3\n");
}

TEST(GaugeTest, EachValueOfALabelIsALine) {
  prometheus::MetricFamily gauges = Gauges("slots", "Slots.");
  AddGauge("lane", "default", 1, gauges);
  AddGauge("lane", "fast", 2, gauges);
  EXPECT_EQ(prometheus::TextSerializer().Serialize({gauges}),
            "# HELP slots Slots.\n# TYPE slots gauge\nslots{lane=\"default\"} 1\n"
            "slots{lane=\"fast\"} 2\n");
}

}  // namespace
}  // namespace callboard::server
