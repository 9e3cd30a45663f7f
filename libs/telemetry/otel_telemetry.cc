#include "libs/telemetry/otel_telemetry.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <opentelemetry/exporters/otlp/otlp_grpc_client.h>
#include <opentelemetry/exporters/otlp/otlp_grpc_exporter_options.h>
#include <opentelemetry/exporters/otlp/otlp_populate_attribute_utils.h>
#include <opentelemetry/proto/collector/trace/v1/trace_service.pb.h>
#include <opentelemetry/sdk/common/env_variables.h>
#include <opentelemetry/sdk/common/global_log_handler.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/resource/resource_detector.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/base/version.h"
#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"

namespace callboard::telemetry {

// ---- Environment variables ----------------------------------------------------------------------

namespace {

// Upper bounds of the variables. They limit the memory of the queue and the size of a call.
constexpr uint32_t kWaitingLimit = 131'072;
constexpr uint32_t kBatchLimit = 4'096;
constexpr uint32_t kDelayLimitMilliseconds = 60'000;
constexpr uint32_t kTimeoutLimitMilliseconds = 600'000;

class VariableReader {
 public:
  explicit VariableReader(absl::FunctionRef<std::string(const char*)> value) : value_(value) {}

  OtelVariables Read() {
    variables_.is_disabled = absl::EqualsIgnoreCase(value_("OTEL_SDK_DISABLED"), "true");
    variables_.has_endpoint = value_("OTEL_TRACES_EXPORTER") != "none" &&
                              !(value_("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").empty() &&
                                value_("OTEL_EXPORTER_OTLP_ENDPOINT").empty());
    ReadSampler();
    ReadBatching();
    FindIgnored();
    return std::move(variables_);
  }

 private:
  void Ignore(const char* name, std::string wanted) {
    variables_.ignored.push_back({name, std::move(wanted)});
  }

  void ReadSampler() {
    const std::string name = value_("OTEL_TRACES_SAMPLER");
    if (name.empty()) return;
    absl::string_view kind = name;
    Sampler sampler = {.follows_callers = absl::ConsumePrefix(&kind, "parentbased_")};
    if (kind == "always_off") {
      sampler.ratio = 0;
    } else if (kind == "traceidratio") {
      sampler.ratio = ReadRatio();
    } else if (kind != "always_on") {
      return Ignore("OTEL_TRACES_SAMPLER",
                    "always_on, always_off or traceidratio, with or without parentbased_");
    }
    variables_.sampler = sampler;
  }

  double ReadRatio() {
    const std::string text = value_("OTEL_TRACES_SAMPLER_ARG");
    double ratio = 1;
    if (text.empty() || (absl::SimpleAtod(text, &ratio) && ratio >= 0 && ratio <= 1)) return ratio;
    Ignore("OTEL_TRACES_SAMPLER_ARG", "0..1");
    return 1;
  }

  // Returns the variable's value, or nullopt if it is not set or not a number from 1 to `limit`.
  std::optional<uint32_t> ReadNumber(const char* name, uint32_t limit) {
    const std::string text = value_(name);
    if (text.empty()) return std::nullopt;
    uint32_t number = 0;
    if (absl::SimpleAtoi(text, &number) && number >= 1 && number <= limit) return number;
    Ignore(name, absl::StrCat("1..", limit));
    return std::nullopt;
  }

  void ReadBatching() {
    Batching& batching = variables_.batching;
    if (const auto spans = ReadNumber("OTEL_BSP_MAX_QUEUE_SIZE", kWaitingLimit)) {
      batching.waiting_max = *spans;
    }
    if (const auto spans = ReadNumber("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", kBatchLimit)) {
      batching.batch_max = *spans;
    }
    // Otherwise no batch could ever be full.
    batching.batch_max = std::min(batching.batch_max, batching.waiting_max);
    if (const auto delay = ReadNumber("OTEL_BSP_SCHEDULE_DELAY", kDelayLimitMilliseconds)) {
      batching.delay = absl::Milliseconds(*delay);
    }
    if (const auto timeout = ReadNumber("OTEL_BSP_EXPORT_TIMEOUT", kTimeoutLimitMilliseconds)) {
      batching.timeout = absl::Milliseconds(*timeout);
    }
  }

  void FindIgnored() {
    for (const char* name :
         {"OTEL_EXPORTER_OTLP_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
          "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE"}) {
      if (!value_(name).empty()) Ignore(name, "none: client certificates are not supported");
    }
    // The variable for traces overrides the general one.
    const char* const traces_protocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    const char* const protocol =
        value_(traces_protocol).empty() ? "OTEL_EXPORTER_OTLP_PROTOCOL" : traces_protocol;
    if (const std::string name = value_(protocol); !name.empty() && name != "grpc") {
      Ignore(protocol, "grpc");
    }
    const std::string exporter = value_("OTEL_TRACES_EXPORTER");
    if (!exporter.empty() && exporter != "otlp" && exporter != "none") {
      Ignore("OTEL_TRACES_EXPORTER", "otlp or none");
    }
    const std::string propagators = value_("OTEL_PROPAGATORS");
    if (!propagators.empty() && !HasTraceContext(propagators)) {
      Ignore("OTEL_PROPAGATORS", "tracecontext");
    }
  }

  static bool HasTraceContext(absl::string_view propagators) {
    const std::vector<absl::string_view> all = absl::StrSplit(propagators, ',');
    return std::any_of(all.begin(), all.end(), [](absl::string_view name) {
      return absl::StripAsciiWhitespace(name) == "tracecontext";
    });
  }

  const absl::FunctionRef<std::string(const char*)> value_;
  OtelVariables variables_;
};

}  // namespace

OtelVariables ReadOtelVariables(absl::FunctionRef<std::string(const char* name)> value) {
  return VariableReader(value).Read();
}

// ---- OtlpWriter ---------------------------------------------------------------------------------

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
  void operator()(bool boolean) { value.set_bool_value(boolean); }

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
  // The wall clock may have been set back between start and end.
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
  // OTLP reserves the status OK for operators who override an error. Success has no status.
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

// Appends the tag and the length that precede an embedded message of `bytes` bytes.
void AppendHeader(int field, size_t bytes, std::string& text) {
  uint8_t header[10];
  uint8_t* end =
      WireFormatLite::WriteTagToArray(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, header);
  end = CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(bytes), end);
  text.append(reinterpret_cast<const char*>(header), static_cast<size_t>(end - header));
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
  AppendHeader(ScopeSpans::kSpansFieldNumber, bytes, spans_);
  spans_.resize(spans_.size() + bytes);
  span_.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(spans_.data() + spans_.size() - bytes));
}

grpc::ByteBuffer OtlpWriter::TakeRequest() {
  const size_t scope_bytes = scope_spans_.size() + spans_.size();
  std::string inner = resource_spans_;
  AppendHeader(ResourceSpans::kScopeSpansFieldNumber, scope_bytes, inner);
  std::string prefix;
  AppendHeader(ExportTraceServiceRequest::kResourceSpansFieldNumber, inner.size() + scope_bytes,
               prefix);
  const grpc::Slice parts[] = {grpc::Slice(prefix + inner + scope_spans_), grpc::Slice(spans_)};
  spans_.clear();
  return {parts, std::size(parts)};
}

// ---- OtelTelemetry ------------------------------------------------------------------------------

namespace {

namespace otlp = opentelemetry::exporter::otlp;
namespace sdk = opentelemetry::sdk;
using proto::collector::trace::v1::ExportTraceServiceResponse;

// A batch is sent immediately when it has this many spans.
constexpr size_t kBatchMin = 512;

// The method to call. OpenTelemetry's stub is not used: it needs the request as a message, and it
// polls for the answer, so that the sender, a thread of low priority, would poll for the whole
// process.
constexpr char kExport[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

// The priority of the sender thread: next to a busy thread it gets about a tenth of a processor.
constexpr int kNiceness = 10;
// The sender yields the processor after this many spans.
constexpr size_t kSpansPerYield = 64;

// ---- The sender ---------------------------------------------------------------------------------

// The configuration that results from settings and environment variables.
struct SenderOptions {
  Sampler sampler = {};
  Batching batching = {};
  absl::Duration flush_timeout = {};

  size_t batch_min() const { return std::min(kBatchMin, batching.batch_max); }
};

// Builds and sends spans in batches, on one thread.
//
// The SDK's batch processor is not used: its destructor may wait for a silent collector longer than
// any configured limit, and it does not count the spans that it drops.
class OtelTelemetry final : public ports::Telemetry {
 public:
  // `collector`: the options of calls. `channel`: the connection to the collector.
  OtelTelemetry(otlp::OtlpGrpcExporterOptions collector,
                const std::shared_ptr<grpc::Channel>& channel,
                const proto::resource::v1::Resource& resource, const SenderOptions& options)
      : collector_(std::move(collector)),
        options_(options),
        stub_(channel),
        writer_(resource),
        sender_([this] { SendBatches(); }) {}

  ~OtelTelemetry() override {
    Flush(options_.flush_timeout);
    {
      base::MutexLock lock(mutex_);
      closing_ = true;
      changed_.NotifyAll();
      if (call_ != nullptr) call_->TryCancel();
    }
    sender_.join();
    base::MutexLock lock(mutex_);
    LogLost(TakeUnloggedLost() + (queued_ - finished_));
  }

  bool enabled() const override { return true; }

  bool ShouldSample(const core::TraceId& trace) const override {
    return options_.sampler.ShouldSample(trace);
  }

  bool ShouldJoin(const core::SpanContext& caller) const override {
    return options_.sampler.ShouldJoin(caller);
  }

  bool ShouldRecord(const core::SpanContext& context) override {
    if (!context.sampled) return false;
    const bool is_full = is_full_;
    if (is_full) CountLost(1);
    return !is_full;
  }

  void Emit(ports::FinishedSpan span) override {
    const core::SpanContext context = span.context;
    EmitLater(context, [span = std::move(span)]() mutable { return std::move(span); });
  }

  void EmitLater(const core::SpanContext& context,
                 std::function<ports::FinishedSpan()> make) override {
    if (!context.sampled) return;
    base::MutexLock lock(mutex_);
    if (queue_.size() == options_.batching.waiting_max) return CountLost(1);
    queue_.push_back(std::move(make));
    is_full_ = queue_.size() == options_.batching.waiting_max;
    ++queued_;
    // The sender waits for the first span, and then for a full batch.
    if (queue_.size() == 1 || queue_.size() == options_.batch_min()) changed_.NotifyAll();
  }

  void Flush(absl::Duration timeout) override {
    base::MutexLock lock(mutex_);
    ++waiting_flushes_;
    changed_.NotifyAll();
    changed_.WaitFor(mutex_, timeout,
                     [this, target = queued_]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finished_ >= target; });
    --waiting_flushes_;
  }

  uint64_t lost() const override { return lost_; }

 private:
  // Spans are built when they are written.
  using SpanMaker = std::function<ports::FinishedSpan()>;
  using Spans = std::vector<SpanMaker>;

  void SendBatches() {
    Spans spans;
    while (TakeBatch(spans)) {
      for (size_t i = 0; i < spans.size(); ++i) {
        // Low priority alone is not enough: a thread that wakes up while this one runs would wait
        // until this one's time slice ends.
        if (i % kSpansPerYield == 0) std::this_thread::yield();
        writer_.Add(spans[i]());
      }
      const grpc::ByteBuffer request = writer_.TakeRequest();
      const std::unique_ptr<grpc::ClientContext> context =
          otlp::OtlpGrpcClient::MakeClientContext(collector_);
      // Waits for a collector that restarts, within the timeout of the call.
      context->set_wait_for_ready(true);
      if (!BeginCall(*context)) return;
      ExportTraceServiceResponse response;
      const grpc::Status status = Export(*context, request, response);
      EndBatch(spans.size(), response.partial_success().rejected_spans(), status);
    }
  }

  grpc::Status Export(grpc::ClientContext& context, const grpc::ByteBuffer& request,
                      ExportTraceServiceResponse& response) {
    stub_.UnaryCall(&context, kExport, {}, &request, &response, [this](const grpc::Status& status) {
      base::MutexLock lock(mutex_);
      call_status_ = status;
      changed_.NotifyAll();
    });
    // Lowers the priority of this thread, because traced work is more important than its spans. On
    // Linux each thread has its own priority. If this fails, the thread keeps the normal one. It
    // must happen after the first call, which may start gRPC's threads: they would inherit the
    // priority.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
    base::MutexLock lock(mutex_);
    while (!call_status_.has_value()) changed_.Wait(mutex_);
    return *std::exchange(call_status_, std::nullopt);
  }

  // Waits for spans and takes as many as fit into a call. Returns false at shutdown.
  bool TakeBatch(Spans& spans) {
    spans.clear();
    base::MutexLock lock(mutex_);
    while (queue_.empty() && !closing_) changed_.Wait(mutex_);
    const Batching& batching = options_.batching;
    changed_.WaitFor(mutex_, batching.delay, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return queue_.size() >= options_.batch_min() || waiting_flushes_ > 0 || closing_;
    });
    const auto last = queue_.begin() + std::min(queue_.size(), batching.batch_max);
    std::move(queue_.begin(), last, std::back_inserter(spans));
    queue_.erase(queue_.begin(), last);
    is_full_ = false;
    return !closing_;
  }

  // Returns false at shutdown.
  bool BeginCall(grpc::ClientContext& context) {
    base::MutexLock lock(mutex_);
    if (!closing_) call_ = &context;
    return !closing_;
  }

  void EndBatch(size_t size, int64_t rejected, const grpc::Status& status) {
    {
      base::MutexLock lock(mutex_);
      call_ = nullptr;
      finished_ += size;
      const auto batch_size = static_cast<int64_t>(size);
      CountLost(static_cast<uint64_t>(status.ok() ? std::clamp<int64_t>(rejected, 0, batch_size)
                                                  : batch_size));
      changed_.NotifyAll();
    }
    // Logs the first failure of an outage, and the number of lost spans when it is over.
    if (!status.ok() && !failing_) {
      base::LogWarning("telemetry", "export_failed",
                       {{"endpoint", collector_.endpoint}, {"error", status.error_message()}});
    }
    failing_ = !status.ok();
    if (status.ok()) LogLost(TakeUnloggedLost());
  }

  void CountLost(uint64_t spans) { lost_ += spans; }
  // Returns the number of lost spans that were not logged yet.
  uint64_t TakeUnloggedLost() {
    const uint64_t lost = lost_;
    return lost - std::exchange(lost_logged_, lost);
  }

  static void LogLost(uint64_t spans) {
    if (spans > 0) base::LogWarning("telemetry", "spans_lost", {{"count", spans}});
  }

  // Constant after construction.
  const otlp::OtlpGrpcExporterOptions collector_;
  const SenderOptions options_;

  // Used only by the sender thread, and by the destructor after it has ended.
  grpc::TemplatedGenericStub<grpc::ByteBuffer, ExportTraceServiceResponse> stub_;
  OtlpWriter writer_;
  bool failing_ = false;
  uint64_t lost_logged_ = 0;

  std::atomic<uint64_t> lost_ = 0;
  // Whether the queue is full. May be out of date.
  std::atomic<bool> is_full_ = false;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<SpanMaker> queue_ ABSL_GUARDED_BY(mutex_);
  // Spans that were ever queued, and those of them that were delivered or lost.
  size_t queued_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t finished_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of waiting Flush() calls.
  int waiting_flushes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // The sender's pending call, or null.
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<grpc::Status> call_status_ ABSL_GUARDED_BY(mutex_);

  std::thread sender_;
};

// ---- Start --------------------------------------------------------------------------------------

// Logs what the SDK would print to standard error.
class SdkLog final : public sdk::common::internal_log::LogHandler {
 public:
  void Handle(sdk::common::internal_log::LogLevel, const char*, int, const char* message,
              const sdk::common::AttributeMap&) noexcept override {
    base::LogWarning("telemetry", "sdk_message", {{"text", message == nullptr ? "" : message}});
  }
};

// Returns "" when the variable is not set.
std::string Variable(const char* name) {
  std::string value;
  return sdk::common::GetStringEnvironmentVariable(name, value) ? value : "";
}

// Returns the options of calls to the collector. `options` override environment variables.
otlp::OtlpGrpcExporterOptions CollectorFor(const TelemetryOptions& options,
                                           const Batching& batching) {
  otlp::OtlpGrpcExporterOptions collector;
  if (!options.endpoint.empty()) {
    collector.endpoint = options.endpoint;
    collector.use_ssl_credentials = absl::StartsWith(options.endpoint, "https://");
  }
  if (batching.timeout < absl::FromChrono(collector.timeout)) {
    collector.timeout = std::chrono::duration_cast<std::chrono::system_clock::duration>(
        absl::ToChronoNanoseconds(batching.timeout));
  }
  return collector;
}

// Returns the resource that emits the spans. Environment variables may add attributes and, if
// `options` have no service name, set the name.
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
  const OtelVariables variables = ReadOtelVariables(Variable);
  if (variables.is_disabled || (options.endpoint.empty() && !variables.has_endpoint)) {
    return std::make_unique<ports::NoTelemetry>();
  }
  for (const IgnoredVariable& ignored : variables.ignored) {
    base::LogWarning("telemetry", "variable_ignored",
                     {{"variable", ignored.name}, {"wanted", ignored.wanted}});
  }
  otlp::OtlpGrpcExporterOptions collector = CollectorFor(options, variables.batching);
  const std::shared_ptr<grpc::Channel> channel = otlp::OtlpGrpcClient::MakeChannel(collector);
  if (channel == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.endpoint.empty() ? "OTEL_EXPORTER_OTLP_ENDPOINT" : "telemetry.otlp_endpoint", ": '",
        collector.endpoint, "' is not an address; expected host:port, for example 127.0.0.1:4317"));
  }
  SenderOptions sender_options = {.sampler = variables.sampler.value_or(Sampler()),
                                  .batching = variables.batching,
                                  .flush_timeout = options.flush_timeout};
  if (options.sample_ratio.has_value()) sender_options.sampler = {.ratio = *options.sample_ratio};
  return std::make_unique<OtelTelemetry>(std::move(collector), channel, ResourceFor(options),
                                         sender_options);
}

}  // namespace callboard::telemetry
