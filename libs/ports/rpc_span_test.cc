#include "libs/ports/rpc_span.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

namespace callboard::ports {
namespace {

TEST(RpcSpanTest, SaysWhatWasCalledAndHowItEnded) {
  const FinishedSpan span = RpcSpan(SpanKind::kClient, "callboard.v1.QueueService/SubmitTask",
                                    absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(span.name, "callboard.v1.QueueService/SubmitTask");
  EXPECT_EQ(span.kind, SpanKind::kClient);
  ASSERT_EQ(span.attributes.size(), 4u);
  EXPECT_EQ(span.attributes[0].name, "rpc.system");
  EXPECT_EQ(span.attributes[0].value, AttributeValue("grpc"));
  EXPECT_EQ(span.attributes[1].value, AttributeValue("callboard.v1.QueueService"));
  EXPECT_EQ(span.attributes[2].value, AttributeValue("SubmitTask"));
  EXPECT_EQ(span.attributes[3].name, "rpc.grpc.status_code");
  EXPECT_EQ(span.attributes[3].value, AttributeValue(int64_t{8}));
  EXPECT_EQ(span.status, absl::ResourceExhaustedError("RESOURCE_EXHAUSTED"));
}

TEST(RpcSpanTest, CallThatEndsWellIsNoError) {
  EXPECT_TRUE(RpcSpan(SpanKind::kServer, "a.B/C", absl::StatusCode::kOk).status.ok());
}

}  // namespace
}  // namespace callboard::ports
