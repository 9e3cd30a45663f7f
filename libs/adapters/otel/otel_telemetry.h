#ifndef CALLBOARD_LIBS_ADAPTERS_OTEL_OTEL_TELEMETRY_H_
#define CALLBOARD_LIBS_ADAPTERS_OTEL_OTEL_TELEMETRY_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/ports/telemetry.h"

namespace callboard::adapters {

struct TelemetryOptions {
  // The collector, which takes OTLP over gRPC: host:port, or an address with http:// or, for TLS,
  // https://. When empty, what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT
  // says.
  std::string endpoint = {};
  // The service's name in traces. When empty, what OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
  // says, or else the name of the binary.
  std::string service_name = {};
  std::string binary_name = {};
  // Share of the traces that begin here that are kept, chosen by trace id (core::InSample); of
  // those that a caller began, what the caller keeps. When absent, what OTEL_TRACES_SAMPLER says,
  // or else 1.
  std::optional<double> sample_ratio = {};
  // The longest that the end of the telemetry waits for the last spans to be delivered.
  absl::Duration flush_timeout = absl::Seconds(1);
};

// Spans go to an OpenTelemetry collector; nowhere when no endpoint is given, when there is none but
// OTEL_TRACES_EXPORTER says `none`, or when OTEL_SDK_DISABLED is true. The OTEL_EXPORTER_OTLP_*
// variables for headers, certificates, compression and timeout are honoured as well, and OTEL_BSP_*
// for batches. Others that are set and cannot be honoured are logged.
//
// A collector that is slow, silent or gone costs spans and nothing else: a bounded number of them
// waits, and those beyond are counted and logged.
//
// INVALID_ARGUMENT when the endpoint is no address.
absl::StatusOr<std::unique_ptr<ports::Telemetry>> StartTelemetry(const TelemetryOptions& options);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_OTEL_OTEL_TELEMETRY_H_
