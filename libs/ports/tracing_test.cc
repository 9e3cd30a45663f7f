#include "libs/ports/telemetry.h"

#include <gtest/gtest.h>

#include "libs/testing/fake_environment.h"
#include "libs/testing/recorded_spans.h"

namespace callboard::ports {
namespace {

class TracingTest : public testing::Test {
 protected:
  test::RecordedSpans spans_;
  test::FakeClock clock_;
  test::FakeRandom random_;
  const Tracing tracing_{spans_, clock_, random_};
};

TEST_F(TracingTest, EveryTraceHasADifferentId) {
  EXPECT_FALSE(BeginTrace(tracing_).trace_id == BeginTrace(tracing_).trace_id);
}

TEST_F(TracingTest, SamplingIsDecidedWhenATraceBegins) {
  EXPECT_TRUE(BeginTrace(tracing_).sampled);
  spans_.SetSampling(false);
  EXPECT_FALSE(BeginTrace(tracing_).sampled);
}

}  // namespace
}  // namespace callboard::ports
