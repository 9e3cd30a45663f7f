#include "libs/adapters/otel/otel_telemetry.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
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
#include <chrono>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/adapters/otel/otel_variables.h"
#include "libs/adapters/otel/otlp_writer.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/base/version.h"

namespace callboard::adapters {
namespace {

namespace otlp = opentelemetry::exporter::otlp;
namespace sdk = opentelemetry::sdk;
namespace proto = opentelemetry::proto;
using proto::collector::trace::v1::ExportTraceServiceResponse;

// For how many the first waits, at most.
constexpr size_t kBatchMin = 512;

// What is called. Not with OpenTelemetry's stub, which takes a message, and polls until it has the
// answer: the thread of least priority would do that for the whole process.
constexpr char kExport[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

// The processor's share of who sends, beside one of somebody who works: a tenth. And how many spans
// it makes before it looks whether somebody waits for the processor.
constexpr int kNiceness = 10;
constexpr size_t kSpansAtOnce = 64;

// ---- The way to the collector -------------------------------------------------------------------

// What settings and environment decided.
struct Choices {
  Sampler sampler = {};
  Batching batching = {};
  absl::Duration flush_timeout = {};

  size_t batch_min() const { return std::min(kBatchMin, batching.batch_max); }
};

// Makes and sends spans from one thread, batch after batch.
//
// The SDK's batch processor is not used: its end waits for a silent collector longer than any limit
// it is given, and what it drops it does not count.
class OtelTelemetry final : public ports::Telemetry {
 public:
  // `collector` says how to call it, `channel` leads there.
  OtelTelemetry(otlp::OtlpGrpcExporterOptions collector,
                const std::shared_ptr<grpc::Channel>& channel,
                const proto::resource::v1::Resource& resource, const Choices& choices)
      : collector_(std::move(collector)),
        choices_(choices),
        stub_(channel),
        writer_(resource),
        sender_([this] { SendBatches(); }) {}

  ~OtelTelemetry() override {
    Flush(choices_.flush_timeout);
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

  bool Keeps(const core::TraceId& trace) const override { return choices_.sampler.Keeps(trace); }

  bool Joins(const core::SpanContext& caller) const override {
    return choices_.sampler.Joins(caller);
  }

  bool Wants(const core::SpanContext& context) override {
    if (!context.sampled) return false;
    const bool is_full = is_full_;
    if (is_full) Lose(1);
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
    if (waiting_.size() == choices_.batching.waiting_max) return Lose(1);
    waiting_.push_back(std::move(make));
    is_full_ = waiting_.size() == choices_.batching.waiting_max;
    ++taken_;
    // The sender waits for the first, and then for a full batch.
    if (waiting_.size() == 1 || waiting_.size() == choices_.batch_min()) changed_.NotifyAll();
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
  // Each is made when it is written.
  using SpanMaker = std::function<ports::FinishedSpan()>;
  using Spans = std::vector<SpanMaker>;

  void SendBatches() {
    Spans spans;
    while (TakeBatch(spans)) {
      for (size_t i = 0; i < spans.size(); ++i) {
        // Low priority alone does not help those who wake up while this runs: they would wait until
        // its time is up.
        if (i % kSpansAtOnce == 0) std::this_thread::yield();
        writer_.Add(spans[i]());
      }
      const grpc::ByteBuffer request = writer_.Take();
      const std::unique_ptr<grpc::ClientContext> context =
          otlp::OtlpGrpcClient::MakeClientContext(collector_);
      // A collector that is being restarted is waited for, as long as a call may take.
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
      answer_ = status;
      changed_.NotifyAll();
    });
    // Whoever is traced goes before who tells of it. On Linux a thread has a priority of its own;
    // where it cannot be set, all are equal. Not before: the first call may begin threads of gRPC,
    // which inherit it.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNiceness);
    base::MutexLock lock(mutex_);
    while (!answer_.has_value()) changed_.Wait(mutex_);
    return *std::exchange(answer_, std::nullopt);
  }

  // Waits for spans, and takes as many as a call may have; false at the end.
  bool TakeBatch(Spans& spans) {
    spans.clear();
    base::MutexLock lock(mutex_);
    while (waiting_.empty() && !closing_) changed_.Wait(mutex_);
    const Batching& batching = choices_.batching;
    changed_.WaitFor(mutex_, batching.delay, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return waiting_.size() >= choices_.batch_min() || flushes_ > 0 || closing_;
    });
    const auto last = waiting_.begin() + std::min(waiting_.size(), batching.batch_max);
    std::move(waiting_.begin(), last, std::back_inserter(spans));
    waiting_.erase(waiting_.begin(), last);
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
      const auto most = static_cast<int64_t>(size);
      Lose(static_cast<uint64_t>(status.ok() ? std::clamp<int64_t>(rejected, 0, most) : most));
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
  const Choices choices_;

  // Touched by the sender only, and at the end.
  grpc::TemplatedGenericStub<grpc::ByteBuffer, ExportTraceServiceResponse> stub_;
  OtlpWriter writer_;
  bool failing_ = false;
  uint64_t lost_logged_ = 0;

  std::atomic<uint64_t> lost_ = 0;
  // Whether no more can wait; may be behind.
  std::atomic<bool> is_full_ = false;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<SpanMaker> waiting_ ABSL_GUARDED_BY(mutex_);
  // Spans that were ever let wait, and those of them that are delivered or lost.
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  // Calls of Flush() that wait.
  int flushes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // What is under way; the sender's.
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<grpc::Status> answer_ ABSL_GUARDED_BY(mutex_);

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

// How the collector is called: as the environment says, where options are silent.
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
        collector.endpoint, "' is no address; wanted: host:port, as in 127.0.0.1:4317"));
  }
  Choices choices = {.sampler = variables.sampler.value_or(Sampler()),
                     .batching = variables.batching,
                     .flush_timeout = options.flush_timeout};
  if (options.sample_ratio.has_value()) choices.sampler = {.ratio = *options.sample_ratio};
  return std::make_unique<OtelTelemetry>(std::move(collector), channel, ResourceFor(options),
                                         choices);
}

}  // namespace callboard::adapters
