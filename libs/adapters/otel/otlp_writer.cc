#include "libs/adapters/otel/otlp_writer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <variant>

#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/version.h"
#include "libs/core/trace_context.h"
#include "libs/ports/span_names.h"

namespace callboard::adapters {
namespace {

namespace proto = opentelemetry::proto;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using proto::collector::trace::v1::ExportTraceServiceRequest;
using proto::trace::v1::ResourceSpans;
using proto::trace::v1::ScopeSpans;
using proto::trace::v1::Span;

struct ValueSetter {
  void operator()(const std::string& text) { value.set_string_value(text); }
  void operator()(int64_t number) { value.set_int_value(number); }
  void operator()(double number) { value.set_double_value(number); }
  void operator()(bool truth) { value.set_bool_value(truth); }

  proto::common::v1::AnyValue& value;
};

Span::SpanKind ToOtlp(ports::SpanKind kind) {
  switch (kind) {
    case ports::SpanKind::kInternal:
      return Span::SPAN_KIND_INTERNAL;
    case ports::SpanKind::kServer:
      return Span::SPAN_KIND_SERVER;
    case ports::SpanKind::kClient:
      return Span::SPAN_KIND_CLIENT;
    case ports::SpanKind::kProducer:
      return Span::SPAN_KIND_PRODUCER;
    case ports::SpanKind::kConsumer:
      return Span::SPAN_KIND_CONSUMER;
  }
  CHECK(false) << "no SpanKind: " << static_cast<int>(kind);
}

void Write(const ports::FinishedSpan& span, Span& message) {
  message.set_name(span.name);
  message.set_kind(ToOtlp(span.kind));
  const core::SpanContext& context = span.context;
  message.set_trace_id(context.trace_id.value().data(), context.trace_id.value().size());
  message.set_span_id(context.span_id.value().data(), context.span_id.value().size());
  if (span.parent.has_value()) {
    message.set_parent_span_id(span.parent->value().data(), span.parent->value().size());
  }
  message.set_start_time_unix_nano(absl::ToUnixNanos(span.start));
  // The wall clock may have been set back meanwhile.
  message.set_end_time_unix_nano(absl::ToUnixNanos(std::max(span.start, span.end)));
  for (const ports::SpanAttribute& attribute : span.attributes) {
    proto::common::v1::KeyValue& added = *message.add_attributes();
    added.set_key(attribute.name.data(), attribute.name.size());
    std::visit(ValueSetter{*added.mutable_value()}, attribute.value);
  }
  for (const ports::SpanEvent& event : span.events) {
    Span::Event& added = *message.add_events();
    added.set_name(event.name.data(), event.name.size());
    added.set_time_unix_nano(absl::ToUnixNanos(event.at));
  }
  // OTLP's OK is for people who overrule an error; success is the absence of a status.
  if (!span.status.ok()) {
    message.mutable_status()->set_code(proto::trace::v1::Status::STATUS_CODE_ERROR);
    message.mutable_status()->set_message(std::string(span.status.message()));
  }
  for (const core::SpanContext& link : span.links) {
    Span::Link& added = *message.add_links();
    added.set_trace_id(link.trace_id.value().data(), link.trace_id.value().size());
    added.set_span_id(link.span_id.value().data(), link.span_id.value().size());
  }
}

// What stands before a message of that size that is a field of another.
void AppendHead(int field, size_t bytes, std::string& text) {
  uint8_t head[10];
  uint8_t* end =
      WireFormatLite::WriteTagToArray(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, head);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(bytes), end);
  text.append(reinterpret_cast<const char*>(head), static_cast<size_t>(end - head));
}

}  // namespace

OtlpWriter::OtlpWriter(const proto::resource::v1::Resource& resource) {
  ResourceSpans resource_spans;
  *resource_spans.mutable_resource() = resource;
  resource_spans.set_schema_url(ports::span_names::kSchemaUrl);
  resource_spans_ = resource_spans.SerializeAsString();
  ScopeSpans scope_spans;
  scope_spans.mutable_scope()->set_name("callboard");
  scope_spans.mutable_scope()->set_version(std::string(base::kVersion));
  scope_spans.set_schema_url(ports::span_names::kSchemaUrl);
  scope_spans_ = scope_spans.SerializeAsString();
}

void OtlpWriter::Add(const ports::FinishedSpan& span) {
  span_.Clear();
  Write(span, span_);
  const size_t bytes = span_.ByteSizeLong();
  AppendHead(ScopeSpans::kSpansFieldNumber, bytes, spans_);
  spans_.resize(spans_.size() + bytes);
  span_.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(spans_.data() + spans_.size() - bytes));
}

grpc::ByteBuffer OtlpWriter::Take() {
  const size_t scope_bytes = scope_spans_.size() + spans_.size();
  std::string inner = resource_spans_;
  AppendHead(ResourceSpans::kScopeSpansFieldNumber, scope_bytes, inner);
  std::string before;
  AppendHead(ExportTraceServiceRequest::kResourceSpansFieldNumber, inner.size() + scope_bytes,
             before);
  const grpc::Slice parts[] = {grpc::Slice(before + inner + scope_spans_), grpc::Slice(spans_)};
  spans_.clear();
  return {parts, std::size(parts)};
}

}  // namespace callboard::adapters
