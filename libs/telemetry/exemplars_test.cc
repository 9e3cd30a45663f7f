#include "libs/telemetry/metrics.h"

#include <gtest/gtest.h>

#include <limits>

namespace callboard::telemetry {
namespace {

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

}  // namespace
}  // namespace callboard::telemetry
