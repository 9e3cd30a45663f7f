#include "libs/server/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/fake_environment.h"
#include "libs/testing/recorded_spans.h"

namespace callboard::server {
namespace {

constexpr char kMethod[] = "callboard.v1.QueueService/SubmitTask";

core::SpanContext CallersSpan() {
  return *core::ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
}

class CallTracerTest : public testing::Test {
 protected:
  test::RecordedSpans spans_;
  test::FakeClock clock_;
  test::FakeRandom random_;
  const CallTracer tracer_{{spans_, clock_, random_}};
};

TEST_F(CallTracerTest, CallIsPartOfItsCallersTrace) {
  const CallSpan call = tracer_.Begin(CallersSpan());
  EXPECT_TRUE(call.context.trace_id == CallersSpan().trace_id);
  EXPECT_TRUE(call.context.span_id != CallersSpan().span_id);
  clock_.Advance(absl::Seconds(2));
  tracer_.End(call, kMethod, absl::OkStatus());
  const ports::FinishedSpan span = spans_.Only();
  EXPECT_EQ(span.name, kMethod);
  EXPECT_EQ(span.kind, ports::SpanKind::kServer);
  EXPECT_EQ(span.context, call.context);
  EXPECT_TRUE(span.parent == CallersSpan().span_id);
  EXPECT_EQ(span.end - span.start, absl::Seconds(2));
  EXPECT_TRUE(span.status.ok());
}

TEST_F(CallTracerTest, CallWithoutATraceStartsOne) {
  const CallSpan call = tracer_.Begin(std::nullopt);
  EXPECT_NE(call.context, core::SpanContext());
  tracer_.End(call, kMethod, absl::OkStatus());
  EXPECT_TRUE(spans_.Only().parent == std::nullopt);
}

TEST_F(CallTracerTest, UnsampledTraceIsPropagatedAsUnsampled) {
  spans_.SetSampling(false);
  const CallSpan call = tracer_.Begin(std::nullopt);
  EXPECT_FALSE(call.context.sampled);
  tracer_.End(call, kMethod, absl::OkStatus());
  EXPECT_THAT(spans_.All(), testing::IsEmpty());
}

TEST_F(CallTracerTest, ShouldJoinDecidesSampling) {
  core::SpanContext unsampled = CallersSpan();
  unsampled.sampled = false;
  spans_.SetSampling(false);
  EXPECT_FALSE(tracer_.Begin(unsampled).context.sampled);
  EXPECT_TRUE(tracer_.Begin(CallersSpan()).context.sampled);
  spans_.SetJoins(true);
  EXPECT_TRUE(tracer_.Begin(unsampled).context.sampled);
  spans_.SetJoins(false);
  EXPECT_FALSE(tracer_.Begin(CallersSpan()).context.sampled);
}

TEST_F(CallTracerTest, FailedCallHasOnlyTheCodeInItsSpan) {
  tracer_.End(tracer_.Begin(std::nullopt), kMethod,
              absl::DataLossError("prompt is damaged: canary"));
  EXPECT_EQ(spans_.Only().status, absl::DataLossError("DATA_LOSS"));
}

TEST_F(CallTracerTest, WithoutTelemetryTheContextIsTheCallersSpan) {
  ports::NoTelemetry no_telemetry;
  const CallTracer tracer({no_telemetry, clock_, random_});
  EXPECT_EQ(tracer.Begin(CallersSpan()).context, CallersSpan());
  EXPECT_EQ(tracer.Begin(std::nullopt).context, core::SpanContext());
}

}  // namespace
}  // namespace callboard::server
