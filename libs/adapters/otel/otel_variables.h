// What the variables of OpenTelemetry ask for, as far as it concerns traces and the SDK does not
// read them itself:
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables
#ifndef CALLBOARD_LIBS_ADAPTERS_OTEL_OTEL_VARIABLES_H_
#define CALLBOARD_LIBS_ADAPTERS_OTEL_OTEL_VARIABLES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "libs/core/trace_context.h"

namespace callboard::adapters {

// Which traces are kept.
struct Sampler {
  // The share of those that begin here, chosen by trace id.
  double ratio = 1;
  // What a caller keeps is kept, and nothing else of a caller's; otherwise the same share of all.
  bool follows_callers = true;

  bool Keeps(const core::TraceId& trace) const { return core::InSample(trace, ratio); }
  bool Joins(const core::SpanContext& caller) const {
    return follows_callers ? caller.sampled : Keeps(caller.trace_id);
  }
};

// How spans are gathered and sent.
struct Batching {
  // Spans that may wait; more are lost. A tenth of a second of as many as a director ever ends.
  size_t waiting_max = 8192;
  // How many a call takes: less than a collector's usual 4 MiB.
  size_t batch_max = 2048;
  // How long the first waits for others.
  absl::Duration delay = absl::Milliseconds(500);
  // How long a call may take, when it is less than what the exporter's own variables say.
  absl::Duration timeout = absl::InfiniteDuration();
};

// One that is set and does nothing.
struct IgnoredVariable {
  std::string name;
  // What would be honoured.
  std::string wanted;

  friend bool operator==(const IgnoredVariable&, const IgnoredVariable&) = default;
};

struct OtelVariables {
  // Nothing is to be traced, whatever else says so.
  bool is_disabled = false;
  // Spans are to be sent, and it is known where.
  bool has_endpoint = false;
  // Absent when nobody asks for one.
  std::optional<Sampler> sampler = {};
  Batching batching = {};
  std::vector<IgnoredVariable> ignored = {};
};

// `value` returns what a variable says; nothing when it is not set.
OtelVariables ReadOtelVariables(absl::FunctionRef<std::string(const char* name)> value);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_OTEL_OTEL_VARIABLES_H_
