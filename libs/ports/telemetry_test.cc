#include "libs/ports/telemetry.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "libs/base/error.h"
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

constexpr char kSubmit[] = "callboard.v1.QueueService/SubmitTask";

TEST(RpcSpanTest, ContainsMethodAndStatus) {
  const FinishedSpan span = RpcSpan(
      SpanKind::kClient, kSubmit,
      base::WithReason(absl::ResourceExhaustedError("queue is full: canary"), "QUEUE_FULL"));
  EXPECT_EQ(span.name, kSubmit);
  EXPECT_EQ(span.kind, SpanKind::kClient);
  ASSERT_EQ(span.attributes.size(), 5u);
  EXPECT_EQ(span.attributes[0].name, "rpc.system");
  EXPECT_EQ(span.attributes[0].value, AttributeValue("grpc"));
  EXPECT_EQ(span.attributes[1].value, AttributeValue("callboard.v1.QueueService"));
  EXPECT_EQ(span.attributes[2].value, AttributeValue("SubmitTask"));
  EXPECT_EQ(span.attributes[3].name, "rpc.grpc.status_code");
  EXPECT_EQ(span.attributes[3].value, AttributeValue(int64_t{8}));
  EXPECT_EQ(span.attributes[4].name, "error.type");
  EXPECT_EQ(span.attributes[4].value, AttributeValue("QUEUE_FULL"));
  EXPECT_EQ(span.status, absl::ResourceExhaustedError("RESOURCE_EXHAUSTED"));
}

TEST(RpcSpanTest, SuccessfulCallIsNoError) {
  for (const SpanKind kind : {SpanKind::kClient, SpanKind::kServer}) {
    const FinishedSpan span = RpcSpan(kind, "a.B/C", absl::OkStatus());
    EXPECT_TRUE(span.status.ok());
    EXPECT_EQ(span.attributes.size(), 4u);
  }
}

TEST(RpcSpanTest, ServerSpanFailsOnlyForServerErrors) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnknown, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kUnimplemented, absl::StatusCode::kInternal,
        absl::StatusCode::kUnavailable, absl::StatusCode::kDataLoss}) {
    EXPECT_EQ(RpcSpan(SpanKind::kServer, kSubmit, {code, "canary"}).status.code(), code);
  }
  for (const absl::StatusCode code :
       {absl::StatusCode::kCancelled, absl::StatusCode::kInvalidArgument,
        absl::StatusCode::kNotFound, absl::StatusCode::kAlreadyExists,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kAborted,
        absl::StatusCode::kOutOfRange, absl::StatusCode::kUnauthenticated}) {
    const FinishedSpan server = RpcSpan(SpanKind::kServer, kSubmit, {code, "canary"});
    EXPECT_TRUE(server.status.ok()) << server.status;
    EXPECT_EQ(server.attributes.size(), 4u);
    EXPECT_EQ(RpcSpan(SpanKind::kClient, kSubmit, {code, "canary"}).status.code(), code);
  }
}

TEST(RpcSpanTest, ErrorTypeIsTheReasonOrTheCode) {
  const absl::Status error = absl::UnavailableError("canary");
  EXPECT_EQ(SpanErrorType(error), "UNAVAILABLE");
  EXPECT_EQ(SpanErrorType(base::WithReason(error, "STORE_AWAY_2")), "STORE_AWAY_2");
  EXPECT_EQ(SpanErrorType(base::WithReason(error, "my prompt is: canary")), "UNAVAILABLE");
  EXPECT_EQ(SpanErrorType(base::WithReason(error, std::string(64, 'A'))), "UNAVAILABLE");
}

}  // namespace
}  // namespace callboard::ports
