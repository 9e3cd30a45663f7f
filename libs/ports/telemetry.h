#ifndef CALLBOARD_LIBS_PORTS_TELEMETRY_H_
#define CALLBOARD_LIBS_PORTS_TELEMETRY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/trace_context.h"

namespace callboard::ports {

// Which side of a call or a hand-over a span tells of.
enum class SpanKind { kInternal, kServer, kClient, kProducer, kConsumer };

using AttributeValue = std::variant<std::string, int64_t, double, bool>;

// Names are of span_names.h.
struct SpanAttribute {
  absl::string_view name;
  AttributeValue value;
};

// Something that happened within a span.
struct SpanEvent {
  absl::string_view name;
  absl::Time at;
};

// A piece of work that is over. Never holds prompts, environment values or tokens.
struct FinishedSpan {
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  core::SpanContext context = {};
  // The span of the same trace that this one is part of; absent for the first of a trace.
  std::optional<core::SpanId> parent = {};
  absl::Time start = {};
  absl::Time end = {};
  std::vector<SpanAttribute> attributes = {};
  std::vector<SpanEvent> events = {};
  // An error marks the span as failed, and its message says how.
  absl::Status status = {};
  // Spans of other traces that led to this one.
  std::vector<core::SpanContext> links = {};
};

// Where spans go.
//
// A span is told of once it is over, under ids that its owner chose when it began: whoever stored
// them can end the span, also after a restart. There is no object for a span that is under way.
//
// Thread-safe. Nothing here fails or, but for Flush(), waits: what cannot be delivered is lost, and
// the work goes on.
class Telemetry {
 public:
  // Flushes, for as long as the implementation was told to.
  virtual ~Telemetry() = default;

  // False when nothing is ever handed over: then nobody has to make spans.
  virtual bool is_on() const = 0;

  // Whether a trace that begins here is kept.
  virtual bool Keeps(const core::TraceId& trace) const = 0;

  // Whether what is done here for a span of somebody else's is kept.
  virtual bool Joins(const core::SpanContext& caller) const = 0;

  // Whether it is worth the while to make a span of that context. False when its trace is not kept;
  // or when the span would be lost, and then it is, as if it had been emitted.
  virtual bool Wants(const core::SpanContext& context) = 0;

  // Hands over `span`, if its trace is kept.
  virtual void Emit(FinishedSpan span) = 0;
  // The same for a span of a trace that is not made yet: `make` makes it, once, or never when it is
  // lost; later, and on a thread that nobody waits for. It owns what it needs, and that is little.
  virtual void EmitLater(const core::SpanContext& context, std::function<FinishedSpan()> make) = 0;

  // Spans that were lost so far.
  virtual uint64_t lost() const = 0;

  // Returns when everything emitted before is delivered or lost, but after `timeout` at the latest.
  virtual void Flush(absl::Duration timeout) = 0;
};

// For a process that nobody traces.
class NoTelemetry final : public Telemetry {
 public:
  bool is_on() const override { return false; }
  bool Keeps(const core::TraceId&) const override { return false; }
  bool Joins(const core::SpanContext&) const override { return false; }
  bool Wants(const core::SpanContext&) override { return false; }
  void Emit(FinishedSpan) override {}
  void EmitLater(const core::SpanContext&, std::function<FinishedSpan()>) override {}
  uint64_t lost() const override { return 0; }
  void Flush(absl::Duration) override {}
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_TELEMETRY_H_
