// Spans for an OpenTelemetry collector: the variables that configure them, their encoding, and the
// sender.

#ifndef CALLBOARD_LIBS_TELEMETRY_OTEL_TELEMETRY_H_
#define CALLBOARD_LIBS_TELEMETRY_OTEL_TELEMETRY_H_

#include <grpcpp/support/byte_buffer.h>
#include <opentelemetry/proto/resource/v1/resource.pb.h>
#include <opentelemetry/proto/trace/v1/trace.pb.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"

namespace callboard::telemetry {

// Decides which traces are sampled.
struct Sampler {
  // Share of the traces that are sampled, chosen by trace id.
  double ratio = 1;
  // If true, `ratio` applies only to traces that start here, and the caller's decision applies to
  // all others. If false, `ratio` applies to all.
  bool follows_callers = true;

  bool ShouldSample(const core::TraceId& trace) const { return core::IsSampled(trace, ratio); }
  bool ShouldJoin(const core::SpanContext& caller) const {
    return follows_callers ? caller.sampled : ShouldSample(caller.trace_id);
  }
};

// How spans are collected and sent.
struct Batching {
  // Size of the queue; more spans are dropped. Enough for a tenth of a second of the highest rate
  // of spans that a director produces.
  size_t waiting_max = 8192;
  // Spans per call. Keeps a request below a collector's usual limit of 4 MiB.
  size_t batch_max = 2048;
  // How long the first span waits for others.
  absl::Duration delay = absl::Milliseconds(500);
  // Timeout of a call, if it is shorter than that of the exporter's own variables.
  absl::Duration timeout = absl::InfiniteDuration();
};

// A variable that is set to a value that is not supported.
struct IgnoredVariable {
  std::string name;
  // The supported values.
  std::string wanted;

  friend bool operator==(const IgnoredVariable&, const IgnoredVariable&) = default;
};

struct OtelVariables {
  // Telemetry is off, whatever the settings are.
  bool is_disabled = false;
  // The variables name an endpoint and do not turn the export of traces off.
  bool has_endpoint = false;
  // Absent when no variable configures one.
  std::optional<Sampler> sampler = {};
  Batching batching = {};
  std::vector<IgnoredVariable> ignored = {};
};

// Reads the environment variables of OpenTelemetry that concern traces and that the SDK does not
// read itself: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
// `value` returns the value of a variable, or "" when it is not set.
OtelVariables ReadOtelVariables(absl::FunctionRef<std::string(const char* name)> value);

// Serializes spans as OTLP's ExportTraceServiceRequest. It does not build that message, because the
// parts of a large batch would be scattered in memory. Instead it reuses one Span message for
// all spans and appends each one's bytes to the output.
//
// Not thread-safe.
class OtlpWriter {
 public:
  // `resource`: the sender of the spans.
  explicit OtlpWriter(const opentelemetry::proto::resource::v1::Resource& resource);

  void Add(const ports::FinishedSpan& span);
  // Returns a request with all spans added since the last call.
  grpc::ByteBuffer TakeRequest();

 private:
  // Serialized ResourceSpans without ScopeSpans, and ScopeSpans without spans.
  std::string resource_spans_;
  std::string scope_spans_;

  opentelemetry::proto::trace::v1::Span span_;
  // The serialized spans.
  std::string spans_;
};

struct TelemetryOptions {
  // Address of the collector, which must accept OTLP over gRPC: host:port, or with http:// or, for
  // TLS, https://. If empty, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT
  // applies.
  std::string endpoint = {};
  // The service's name in traces. If empty, OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES applies,
  // or else `binary_name`.
  std::string service_name = {};
  std::string binary_name = {};
  // Share of the traces that start here that are sampled, chosen by trace id (core::IsSampled). For
  // traces that a caller started, the caller's decision applies. If absent, OTEL_TRACES_SAMPLER
  // applies, or else 1.
  std::optional<double> sample_ratio = {};
  // How long the destructor waits at most for the last spans to be delivered.
  absl::Duration flush_timeout = absl::Seconds(1);
};

// Returns a Telemetry that sends spans to an OpenTelemetry collector. Returns a ports::NoTelemetry
// when no endpoint is configured, when OTEL_TRACES_EXPORTER is `none` and `options` have no
// endpoint, or when OTEL_SDK_DISABLED is true. Also supports the OTEL_EXPORTER_OTLP_* variables for
// headers, certificates, compression and timeout, and OTEL_BSP_* for batches. Logs other variables
// that are set and not supported.
//
// A slow, silent or unreachable collector costs spans and nothing else: a bounded number of spans
// is queued, and the rest is dropped, counted and logged.
//
// Returns INVALID_ARGUMENT when the endpoint is not an address.
absl::StatusOr<std::unique_ptr<ports::Telemetry>> StartTelemetry(const TelemetryOptions& options);

}  // namespace callboard::telemetry

#endif  // CALLBOARD_LIBS_TELEMETRY_OTEL_TELEMETRY_H_
