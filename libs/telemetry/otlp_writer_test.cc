#include "libs/telemetry/otel_telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb.h>

#include <string>
#include <vector>

#include "libs/core/trace.h"

namespace callboard::telemetry {
namespace {

using opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using opentelemetry::proto::trace::v1::Span;
using opentelemetry::proto::trace::v1::Status;

class OtlpWriterTest : public testing::Test {
 protected:
  // Writes the spans and parses the request, as a collector does.
  ExportTraceServiceRequest WriteAndParse(const std::vector<ports::FinishedSpan>& spans) {
    for (const ports::FinishedSpan& span : spans) writer_.Add(span);
    std::vector<grpc::Slice> slices;
    EXPECT_TRUE(writer_.TakeRequest().Dump(&slices).ok());
    std::string text;
    for (const grpc::Slice& slice : slices) text.append(slice.begin(), slice.end());
    ExportTraceServiceRequest request;
    EXPECT_TRUE(request.ParseFromString(text));
    return request;
  }

  ports::FinishedSpan FullSpan() const {
    return {.name = "dispatch",
            .kind = ports::SpanKind::kProducer,
            .context = context_,
            .parent = core::NewSpan(4),
            .start = absl::FromUnixNanos(1),
            .end = absl::FromUnixNanos(5),
            .attributes = {{"text", std::string(1000, 'x')}, {"number", int64_t{-7}}},
            .events = {{"accepted", absl::FromUnixNanos(3)}},
            .status = absl::UnknownError("TIMED_OUT"),
            .links = {context_}};
  }

  OtlpWriter writer_{[] {
    opentelemetry::proto::resource::v1::Resource resource;
    resource.add_attributes()->set_key("service.name");
    return resource;
  }()};
  const core::SpanContext context_ = core::NewTrace({1, 2, 3});
};

TEST_F(OtlpWriterTest, RequestHasEveryFieldOfASpan) {
  const ExportTraceServiceRequest request = WriteAndParse({FullSpan()});
  ASSERT_EQ(request.resource_spans_size(), 1);
  EXPECT_EQ(request.resource_spans(0).resource().attributes(0).key(), "service.name");
  ASSERT_EQ(request.resource_spans(0).scope_spans_size(), 1);
  EXPECT_EQ(request.resource_spans(0).scope_spans(0).scope().name(), "callboard");
  ASSERT_EQ(request.resource_spans(0).scope_spans(0).spans_size(), 1);
  const Span& span = request.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(span.name(), "dispatch");
  EXPECT_EQ(span.kind(), Span::SPAN_KIND_PRODUCER);
  EXPECT_EQ(span.trace_id().size(), 16u);
  EXPECT_EQ(span.span_id().size(), 8u);
  EXPECT_EQ(span.parent_span_id().size(), 8u);
  EXPECT_EQ(span.start_time_unix_nano(), 1u);
  EXPECT_EQ(span.end_time_unix_nano(), 5u);
  ASSERT_EQ(span.attributes_size(), 2);
  EXPECT_EQ(span.attributes(0).value().string_value(), std::string(1000, 'x'));
  EXPECT_EQ(span.attributes(1).value().int_value(), -7);
  EXPECT_EQ(span.events(0).time_unix_nano(), 3u);
  EXPECT_EQ(span.status().code(), Status::STATUS_CODE_ERROR);
  EXPECT_EQ(span.links(0).trace_id(), span.trace_id());
}

TEST_F(OtlpWriterTest, SpanDoesNotLeakIntoTheNext) {
  const ports::FinishedSpan bare = {.name = "bare", .context = context_};
  const ExportTraceServiceRequest request = WriteAndParse({FullSpan(), bare});
  const ExportTraceServiceRequest alone = WriteAndParse({bare});
  ASSERT_EQ(request.resource_spans(0).scope_spans(0).spans_size(), 2);
  EXPECT_EQ(request.resource_spans(0).scope_spans(0).spans(1).SerializeAsString(),
            alone.resource_spans(0).scope_spans(0).spans(0).SerializeAsString());
  EXPECT_EQ(alone.resource_spans(0).scope_spans(0).spans(0).attributes_size(), 0);
}

TEST_F(OtlpWriterTest, ManySpansMakeOneRequest) {
  const ExportTraceServiceRequest request =
      WriteAndParse(std::vector<ports::FinishedSpan>(2048, FullSpan()));
  ASSERT_EQ(request.resource_spans_size(), 1);
  EXPECT_EQ(request.resource_spans(0).scope_spans(0).spans_size(), 2048);
}

}  // namespace
}  // namespace callboard::telemetry
