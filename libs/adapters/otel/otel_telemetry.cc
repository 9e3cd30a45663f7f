#include "libs/adapters/otel/otel_telemetry.h"

#include <google/protobuf/arena.h>
#include <grpcpp/client_context.h>
#include <opentelemetry/exporters/otlp/otlp_grpc_client.h>
#include <opentelemetry/exporters/otlp/otlp_grpc_exporter_options.h>
#include <opentelemetry/exporters/otlp/otlp_populate_attribute_utils.h>
#include <opentelemetry/sdk/common/env_variables.h>
#include <opentelemetry/sdk/common/global_log_handler.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/resource/resource_detector.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/base/version.h"
#include "libs/ports/span_names.h"

namespace callboard::adapters {
namespace {

namespace otlp = opentelemetry::exporter::otlp;
namespace sdk = opentelemetry::sdk;
namespace proto = opentelemetry::proto;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;

// Spans that may wait; more are lost. All that wait go together.
constexpr size_t kWaitingMax = 2048;
// For how many the first waits, and how long.
constexpr size_t kBatchMin = 512;
constexpr absl::Duration kBatchDelay = absl::Milliseconds(500);

// The processor's share of who sends, beside one of somebody who works: a tenth.
constexpr int kNiceness = 10;

// ---- A span as OTLP writes it -------------------------------------------------------------------

struct ValueSetter {
  void operator()(const std::string& text) { value.set_string_value(text); }
  void operator()(int64_t number) { value.set_int_value(number); }
  void operator()(double number) { value.set_double_value(number); }
  void operator()(bool truth) { value.set_bool_value(truth); }

  proto::common::v1::AnyValue& value;
};

proto::trace::v1::Span::SpanKind ToOtlp(ports::SpanKind kind) {
  switch (kind) {
    case ports::SpanKind::kInternal:
      return proto::trace::v1::Span::SPAN_KIND_INTERNAL;
    case ports::SpanKind::kServer:
      return proto::trace::v1::Span::SPAN_KIND_SERVER;
    case ports::SpanKind::kClient:
      return proto::trace::v1::Span::SPAN_KIND_CLIENT;
    case ports::SpanKind::kProducer:
      return proto::trace::v1::Span::SPAN_KIND_PRODUCER;
    case ports::SpanKind::kConsumer:
      return proto::trace::v1::Span::SPAN_KIND_CONSUMER;
  }
  CHECK(false) << "no SpanKind: " << static_cast<int>(kind);
}

void Write(const ports::FinishedSpan& span, proto::trace::v1::Span& message) {
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
    proto::trace::v1::Span::Event& added = *message.add_events();
    added.set_name(event.name.data(), event.name.size());
    added.set_time_unix_nano(absl::ToUnixNanos(event.at));
  }
  // OTLP's OK is for people who overrule an error; success is the absence of a status.
  if (!span.status.ok()) {
    message.mutable_status()->set_code(proto::trace::v1::Status::STATUS_CODE_ERROR);
    message.mutable_status()->set_message(std::string(span.status.message()));
  }
  for (const core::SpanContext& link : span.links) {
    proto::trace::v1::Span::Link& added = *message.add_links();
    added.set_trace_id(link.trace_id.value().data(), link.trace_id.value().size());
    added.set_span_id(link.span_id.value().data(), link.span_id.value().size());
  }
}

// ---- The way to the collector -------------------------------------------------------------------

// Sends spans from one thread, batch after batch.
//
// The SDK's batch processor is not used: its end waits for a silent collector longer than any limit
// it is given, and what it drops it does not count.
class OtelTelemetry final : public ports::Telemetry {
 public:
  // `collector` says how to call it, `channel` leads there.
  OtelTelemetry(otlp::OtlpGrpcExporterOptions collector,
                const std::shared_ptr<grpc::Channel>& channel,
                proto::resource::v1::Resource resource, const TelemetryOptions& options)
      : collector_(std::move(collector)),
        stub_(TraceService::NewStub(channel)),
        resource_(std::move(resource)),
        sample_ratio_(options.sample_ratio),
        flush_timeout_(options.flush_timeout),
        sender_([this] { SendBatches(); }) {}

  ~OtelTelemetry() override {
    Flush(flush_timeout_);
    {
      base::MutexLock lock(mutex_);
      closing_ = true;
      changed_.NotifyAll();
      if (call_ != nullptr) call_->TryCancel();
    }
    sender_.join();
    base::MutexLock lock(mutex_);
    LogLost(TakeLost() + (taken_ - ended_));
  }

  bool is_on() const override { return true; }

  bool Keeps(const core::TraceId& trace) const override {
    return core::InSample(trace, sample_ratio_);
  }

  bool Wants(const core::SpanContext& context) override {
    if (!context.sampled) return false;
    const bool is_full = is_full_;
    if (is_full) Lose(1);
    return !is_full;
  }

  void Emit(ports::FinishedSpan span) override {
    if (!span.context.sampled) return;
    base::MutexLock lock(mutex_);
    if (waiting_.size() == kWaitingMax) return Lose(1);
    waiting_.push_back(std::move(span));
    is_full_ = waiting_.size() == kWaitingMax;
    ++taken_;
    // The sender waits for the first, and then for a full batch.
    if (waiting_.size() == 1 || waiting_.size() == kBatchMin) changed_.NotifyAll();
  }

  void Flush(absl::Duration timeout) override {
    base::MutexLock lock(mutex_);
    ++flushes_;
    changed_.NotifyAll();
    changed_.WaitFor(mutex_, timeout,
                     [this, target = taken_]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ >= target; });
    --flushes_;
  }

  uint64_t lost() const override { return lost_; }

 private:
  void SendBatches() {
    // Whoever is traced goes before who tells of it. On Linux a thread has a priority of its own;
    // where it cannot be set, all are equal.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
    std::vector<ports::FinishedSpan> spans;
    while (TakeBatch(spans)) {
      google::protobuf::Arena arena;
      const ExportTraceServiceRequest& request = RequestWith(spans, arena);
      const std::unique_ptr<grpc::ClientContext> context =
          otlp::OtlpGrpcClient::MakeClientContext(collector_);
      // A collector that is being restarted is waited for, as long as a call may take.
      context->set_wait_for_ready(true);
      if (!BeginCall(*context)) return;
      ExportTraceServiceResponse response;
      const grpc::Status status = stub_->Export(context.get(), request, &response);
      EndBatch(spans.size(), response.partial_success().rejected_spans(), status);
    }
  }

  const ExportTraceServiceRequest& RequestWith(const std::vector<ports::FinishedSpan>& spans,
                                               google::protobuf::Arena& arena) const {
    auto& request = *google::protobuf::Arena::CreateMessage<ExportTraceServiceRequest>(&arena);
    proto::trace::v1::ResourceSpans& resource = *request.add_resource_spans();
    *resource.mutable_resource() = resource_;
    resource.set_schema_url(ports::span_names::kSchemaUrl);
    proto::trace::v1::ScopeSpans& scope = *resource.add_scope_spans();
    scope.mutable_scope()->set_name("callboard");
    scope.mutable_scope()->set_version(std::string(base::kVersion));
    scope.set_schema_url(ports::span_names::kSchemaUrl);
    for (const ports::FinishedSpan& span : spans) Write(span, *scope.add_spans());
    return request;
  }

  // Waits for spans, and exchanges them for those of before; false at the end.
  bool TakeBatch(std::vector<ports::FinishedSpan>& spans) {
    spans.clear();
    base::MutexLock lock(mutex_);
    while (waiting_.empty() && !closing_) changed_.Wait(mutex_);
    changed_.WaitFor(mutex_, kBatchDelay, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return waiting_.size() >= kBatchMin || flushes_ > 0 || closing_;
    });
    waiting_.swap(spans);
    is_full_ = false;
    return !closing_;
  }

  // False when it is too late for one.
  bool BeginCall(grpc::ClientContext& context) {
    base::MutexLock lock(mutex_);
    if (!closing_) call_ = &context;
    return !closing_;
  }

  void EndBatch(size_t size, int64_t rejected, const grpc::Status& status) {
    {
      base::MutexLock lock(mutex_);
      call_ = nullptr;
      ended_ += size;
      Lose(status.ok() ? static_cast<uint64_t>(rejected) : size);
      changed_.NotifyAll();
    }
    // Once per outage; when it is over, how much it cost.
    if (!status.ok() && !failing_) {
      base::LogWarning("telemetry", "export_failed",
                       {{"endpoint", collector_.endpoint}, {"error", status.error_message()}});
    }
    failing_ = !status.ok();
    if (status.ok()) LogLost(TakeLost());
  }

  void Lose(uint64_t spans) { lost_ += spans; }
  // Those that were not logged yet.
  uint64_t TakeLost() {
    const uint64_t lost = lost_;
    return lost - std::exchange(lost_logged_, lost);
  }

  static void LogLost(uint64_t spans) {
    if (spans > 0) base::LogWarning("telemetry", "spans_lost", {{"count", spans}});
  }

  // Constant after construction.
  const otlp::OtlpGrpcExporterOptions collector_;
  const std::unique_ptr<TraceService::Stub> stub_;
  const proto::resource::v1::Resource resource_;
  const double sample_ratio_;
  const absl::Duration flush_timeout_;

  // Touched by the sender only, and at the end.
  bool failing_ = false;
  uint64_t lost_logged_ = 0;

  std::atomic<uint64_t> lost_ = 0;
  // Whether no more can wait; may be behind.
  std::atomic<bool> is_full_ = false;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<ports::FinishedSpan> waiting_ ABSL_GUARDED_BY(mutex_);
  // Spans that were ever let wait, and those of them that are delivered or lost.
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  // Calls of Flush() that wait.
  int flushes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // What is under way; the sender's.
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;

  std::thread sender_;
};

// ---- Start --------------------------------------------------------------------------------------

// What the SDK would print to standard error.
class SdkLog final : public sdk::common::internal_log::LogHandler {
 public:
  void Handle(sdk::common::internal_log::LogLevel, const char*, int, const char* message,
              const sdk::common::AttributeMap&) noexcept override {
    base::LogWarning("telemetry", "sdk_message", {{"text", message == nullptr ? "" : message}});
  }
};

// Empty when it is not set.
std::string Variable(const char* name) {
  std::string value;
  return sdk::common::GetStringEnvironmentVariable(name, value) ? value : "";
}

// Whether the environment wants spans exported, and says where.
bool EnvironmentHasEndpoint() {
  return Variable("OTEL_TRACES_EXPORTER") != "none" &&
         !(Variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").empty() &&
           Variable("OTEL_EXPORTER_OTLP_ENDPOINT").empty());
}

// The share of traces that OTEL_TRACES_SAMPLER and its argument ask for; null when they do not.
// With `parentbased_` or without: what a caller does not keep is not kept in either case.
std::optional<double> EnvironmentRatio() {
  const std::string name = Variable("OTEL_TRACES_SAMPLER");
  const absl::string_view sampler = absl::StripPrefix(name, "parentbased_");
  if (sampler == "always_on") return 1;
  if (sampler == "always_off") return 0;
  if (sampler != "traceidratio") return std::nullopt;
  const std::string argument = Variable("OTEL_TRACES_SAMPLER_ARG");
  double ratio = 1;
  if (!argument.empty() && (!absl::SimpleAtod(argument, &ratio) || !(ratio >= 0 && ratio <= 1))) {
    base::LogWarning("telemetry", "sampler_ignored", {{"OTEL_TRACES_SAMPLER_ARG", argument}});
    return std::nullopt;
  }
  return ratio;
}

bool IsDisabled() {
  bool disabled = false;
  return sdk::common::GetBoolEnvironmentVariable("OTEL_SDK_DISABLED", disabled) && disabled;
}

// Who emits the spans. The environment may add to it and, where the options are silent, name it.
proto::resource::v1::Resource ResourceFor(const TelemetryOptions& options) {
  constexpr char kServiceName[] = "service.name";
  sdk::resource::ResourceAttributes attributes;
  attributes["service.version"] = std::string(base::kVersion);
  if (!options.service_name.empty()) {
    attributes[kServiceName] = options.service_name;
  } else if (sdk::resource::OTELResourceDetector().Detect().GetAttributes().count(kServiceName) ==
             0) {
    attributes[kServiceName] = options.binary_name;
  }
  proto::resource::v1::Resource resource;
  otlp::OtlpPopulateAttributeUtils::PopulateAttribute(&resource,
                                                      sdk::resource::Resource::Create(attributes));
  return resource;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ports::Telemetry>> StartTelemetry(const TelemetryOptions& options) {
  sdk::common::internal_log::GlobalLogHandler::SetLogHandler(
      opentelemetry::nostd::shared_ptr<sdk::common::internal_log::LogHandler>(new SdkLog));
  if (IsDisabled() || (options.endpoint.empty() && !EnvironmentHasEndpoint())) {
    return std::make_unique<ports::NoTelemetry>();
  }
  // Filled from the environment.
  otlp::OtlpGrpcExporterOptions collector;
  if (!options.endpoint.empty()) {
    collector.endpoint = options.endpoint;
    collector.use_ssl_credentials = absl::StartsWith(options.endpoint, "https://");
  }
  const std::shared_ptr<grpc::Channel> channel = otlp::OtlpGrpcClient::MakeChannel(collector);
  if (channel == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.endpoint.empty() ? "OTEL_EXPORTER_OTLP_ENDPOINT" : "telemetry.otlp_endpoint", ": '",
        collector.endpoint, "' is no address; wanted: host:port, as in 127.0.0.1:4317"));
  }
  TelemetryOptions sampled = options;
  if (options.sample_ratio == 1) sampled.sample_ratio = EnvironmentRatio().value_or(1);
  return std::make_unique<OtelTelemetry>(std::move(collector), channel, ResourceFor(options),
                                         sampled);
}

}  // namespace callboard::adapters
