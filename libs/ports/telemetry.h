// Tracing: the names of spans, the spans, their destination, and how they are begun.

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
#include "libs/core/trace.h"
#include "libs/ports/environment.h"

// Names of spans, span events and attributes. They follow one version of OpenTelemetry's
// conventions for messaging, RPC and processes; names without a convention are our own. They are
// all here so that an update of the conventions changes one place.
namespace callboard::ports::span_names {

inline constexpr char kSchemaUrl[] = "https://opentelemetry.io/schemas/1.29.0";

// ---- Spans. The spans of calls have the name of the method ----

// One attempt of the scheduler to submit the task of a due job.
inline constexpr char kFire[] = "scheduler.fire";
// The submit of a task that an operator redrives.
inline constexpr char kRedrive[] = "queue.redrive";
// One wait in the queue. The first one includes the wait for admission.
inline constexpr char kWait[] = "queue.wait";
// The cancel of a task, or of a submit that waits for a place.
inline constexpr char kCancel[] = "queue.cancel";
// From the dispatch of a task to an agent until the dispatch has ended.
inline constexpr char kDispatch[] = "dispatch";
inline constexpr char kRun[] = "agent.run";
// From SIGTERM until no process of the run is left.
inline constexpr char kKillGrace[] = "agent.kill_grace";
// The start of a server, until its ports are open.
inline constexpr char kServerStart[] = "server.start";

// ---- Events ----

inline constexpr char kWaiting[] = "waiting";
inline constexpr char kPending[] = "pending";
inline constexpr char kAccepted[] = "accepted";

// ---- Attributes: conventions ----

inline constexpr char kMessagingSystem[] = "messaging.system";
inline constexpr char kMessagingSystemValue[] = "callboard";
inline constexpr char kMessageId[] = "messaging.message.id";
inline constexpr char kOperation[] = "messaging.operation.name";
inline constexpr char kOperationType[] = "messaging.operation.type";
inline constexpr char kTypeCreate[] = "create";
inline constexpr char kTypeSend[] = "send";
inline constexpr char kTypeProcess[] = "process";
// A director has one queue.
inline constexpr char kDestination[] = "messaging.destination.name";
inline constexpr char kDestinationValue[] = "queue";
inline constexpr char kRpcSystem[] = "rpc.system";
inline constexpr char kRpcSystemValue[] = "grpc";
inline constexpr char kRpcService[] = "rpc.service";
inline constexpr char kRpcMethod[] = "rpc.method";
inline constexpr char kRpcStatusCode[] = "rpc.grpc.status_code";
inline constexpr char kServerAddress[] = "server.address";
inline constexpr char kServerPort[] = "server.port";
inline constexpr char kExitCode[] = "process.exit.code";
// The cause of a failed span, from a closed set of names. Never an error message.
inline constexpr char kErrorType[] = "error.type";

// ---- Attributes: our own ----

inline constexpr char kTaskId[] = "callboard.task.id";
inline constexpr char kTaskState[] = "callboard.task.state";
inline constexpr char kTaskReason[] = "callboard.task.reason";
inline constexpr char kRedriveOf[] = "callboard.task.redrive_of";
inline constexpr char kJob[] = "callboard.job.name";
inline constexpr char kAgent[] = "callboard.agent.name";
inline constexpr char kDispatchNumber[] = "callboard.dispatch.number";
inline constexpr char kAttempt[] = "callboard.dispatch.attempt";
// The outcome of a dispatch: accepted, busy, rejected, failed, cancelled.
inline constexpr char kOutcome[] = "callboard.dispatch.outcome";
// The phase of the cancelled task: waiting, queued, dispatching, in_flight.
inline constexpr char kCancelPhase[] = "callboard.cancel.phase";
inline constexpr char kRunEnd[] = "callboard.run.end";
inline constexpr char kSignal[] = "callboard.run.signal";

}  // namespace callboard::ports::span_names

namespace callboard::ports {

// The role of a span in a call or in message passing, as OpenTelemetry defines it.
enum class SpanKind { kInternal, kServer, kClient, kProducer, kConsumer };

using AttributeValue = std::variant<std::string, int64_t, double, bool>;

// `name` is a constant of span_names.
struct SpanAttribute {
  absl::string_view name;
  AttributeValue value;
};

// Something that happened within a span.
struct SpanEvent {
  absl::string_view name;
  absl::Time at;
};

// A finished piece of work. Never contains prompts, environment values or tokens.
struct FinishedSpan {
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  core::SpanContext context = {};
  // The parent span in the same trace; absent for the first span of a trace.
  std::optional<core::SpanId> parent = {};
  absl::Time start = {};
  absl::Time end = {};
  std::vector<SpanAttribute> attributes = {};
  std::vector<SpanEvent> events = {};
  // An error marks the span as failed, with its message as the description.
  absl::Status status = {};
  // Spans of other traces that led to this one.
  std::vector<core::SpanContext> links = {};
};

// The destination of spans.
//
// A span is emitted when it has ended, with ids that its owner chose when it began. There is no
// object for a span in progress, so an owner that has stored the ids can end the span after a
// restart.
//
// Thread-safe. The methods never fail. Only Flush() and the destructor block. Spans that cannot be
// delivered are lost.
class Telemetry {
 public:
  // Flushes, with the timeout of the implementation.
  virtual ~Telemetry() = default;

  // Returns false if spans are never delivered. Callers then need not make spans.
  virtual bool enabled() const = 0;

  // Decides whether a trace that begins in this process is recorded.
  virtual bool ShouldSample(const core::TraceId& trace) const = 0;

  // Decides whether the children of a caller's span are recorded.
  virtual bool ShouldJoin(const core::SpanContext& caller) const = 0;

  // Returns true if the caller should make the span `context`. Returns false if its trace is not
  // recorded, or if the span would be lost. In the latter case counts the span as lost.
  virtual bool ShouldRecord(const core::SpanContext& context) = 0;

  // Delivers `span` if its trace is recorded.
  virtual void Emit(FinishedSpan span) = 0;
  // Like Emit(), but makes the span later: calls `make` at most once, on a background thread.
  // `make` must own all data that it needs, and should be small.
  virtual void EmitLater(const core::SpanContext& context, std::function<FinishedSpan()> make) = 0;

  // Number of spans lost so far.
  virtual uint64_t lost() const = 0;

  // Waits until all spans emitted so far are delivered or lost, but at most `timeout`.
  virtual void Flush(absl::Duration timeout) = 0;
};

// Discards all spans.
class NoTelemetry final : public Telemetry {
 public:
  bool enabled() const override { return false; }
  bool ShouldSample(const core::TraceId&) const override { return false; }
  bool ShouldJoin(const core::SpanContext&) const override { return false; }
  bool ShouldRecord(const core::SpanContext&) override { return false; }
  void Emit(FinishedSpan) override {}
  void EmitLater(const core::SpanContext&, std::function<FinishedSpan()>) override {}
  uint64_t lost() const override { return 0; }
  void Flush(absl::Duration) override {}
};

// The W3C key in the metadata of a call.
inline constexpr char kTraceparent[] = "traceparent";

// Dependencies of code that makes spans. They must outlive that code.
struct Tracing {
  Telemetry& telemetry;
  const Clock& clock;
  Random& random;
};

// Makes the first span of a new trace, and decides whether the trace is recorded.
inline core::SpanContext BeginTrace(const Tracing& tracing) {
  Random& random = tracing.random;
  core::SpanContext first = core::NewTrace({random.Next(), random.Next(), random.Next()});
  first.sampled = tracing.telemetry.ShouldSample(first.trace_id);
  return first;
}

// Returns the error type that spans record: the reason of `error` (libs/base/error.h), or the name
// of its code if there is no reason or the reason is not UPPER_SNAKE.
std::string SpanErrorType(const absl::Status& error);

// Makes the span of a finished call, for the client or the server. Sets neither the times nor the
// error message, which may contain text of the caller. `method` is a full name such as
// callboard.v1.QueueService/SubmitTask.
//
// A client span has failed if the call returned an error. A server span has failed only for errors
// of the server, not for errors that the caller caused.
FinishedSpan RpcSpan(SpanKind kind, absl::string_view method, const absl::Status& status);

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_TELEMETRY_H_
