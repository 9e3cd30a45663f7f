#ifndef CALLBOARD_LIBS_ADAPTERS_OTEL_OTLP_WRITER_H_
#define CALLBOARD_LIBS_ADAPTERS_OTEL_OTLP_WRITER_H_

#include <grpcpp/support/byte_buffer.h>
#include <opentelemetry/proto/resource/v1/resource.pb.h>
#include <opentelemetry/proto/trace/v1/trace.pb.h>

#include <string>

#include "libs/ports/telemetry.h"

namespace callboard::adapters {

// Writes spans as OTLP's ExportTraceServiceRequest, without making that message: one of a span
// serves for all of them, one after the other, and is written to what is sent. The parts of a whole
// batch would lie all over the memory.
//
// Not thread-safe.
class OtlpWriter {
 public:
  // `resource`: whose spans they are.
  explicit OtlpWriter(const opentelemetry::proto::resource::v1::Resource& resource);

  void Add(const ports::FinishedSpan& span);
  // A request with all that were added since the last.
  grpc::ByteBuffer Take();

 private:
  // Without what they are there for: the ScopeSpans, and the spans.
  std::string resource_spans_;
  std::string scope_spans_;

  opentelemetry::proto::trace::v1::Span span_;
  std::string spans_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_OTEL_OTLP_WRITER_H_
