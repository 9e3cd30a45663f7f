#include "libs/testing/otlp_collector.h"

#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::test {

using opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
using opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;
using opentelemetry::proto::collector::trace::v1::TraceService;

class OtlpCollector::Service final : public TraceService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Export(grpc::CallbackServerContext* context,
                                   const ExportTraceServiceRequest* request,
                                   ExportTraceServiceResponse*) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    base::MutexLock lock(mutex_);
    if (failing_) {
      reactor->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "overloaded"));
    } else if (holding_) {
      held_.push_back({reactor, *request, HeadersOf(*context)});
    } else {
      Answer({reactor, *request, HeadersOf(*context)});
    }
    return reactor;
  }

  void Hold() {
    base::MutexLock lock(mutex_);
    holding_ = true;
  }

  void Fail() {
    base::MutexLock lock(mutex_);
    failing_ = true;
  }

  void Release() {
    base::MutexLock lock(mutex_);
    holding_ = false;
    for (const Call& call : held_) Answer(call);
    held_.clear();
  }

  std::vector<ReceivedSpan> WaitForSpans(size_t count, absl::Duration deadline) {
    base::MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, deadline, [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return spans_.size() >= count;
    });
    return spans_;
  }

 private:
  struct Call {
    grpc::ServerUnaryReactor* reactor;
    ExportTraceServiceRequest request;
    std::map<std::string, std::string> headers;
  };

  static std::map<std::string, std::string> HeadersOf(const grpc::CallbackServerContext& context) {
    std::map<std::string, std::string> headers;
    for (const auto& [key, value] : context.client_metadata()) {
      headers[{key.data(), key.size()}] = {value.data(), value.size()};
    }
    return headers;
  }

  void Answer(const Call& call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& group : call.request.resource_spans()) {
      std::map<std::string, std::string> resource;
      for (const auto& attribute : group.resource().attributes()) {
        resource[attribute.key()] = attribute.value().string_value();
      }
      for (const auto& scope : group.scope_spans()) {
        for (const auto& span : scope.spans()) spans_.push_back({span, resource, call.headers});
      }
    }
    changed_.NotifyAll();
    call.reactor->Finish(grpc::Status::OK);
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Call> held_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReceivedSpan> spans_ ABSL_GUARDED_BY(mutex_);
};

OtlpCollector::OtlpCollector(uint16_t port,
                             const std::shared_ptr<grpc::ServerCredentials>& credentials)
    : service_(std::make_unique<Service>()) {
  int chosen = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), credentials, &chosen);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr) << "no collector on port " << port;
  address_ = absl::StrCat("127.0.0.1:", chosen);
}

OtlpCollector::~OtlpCollector() {
  Release();
  server_->Shutdown();
}

void OtlpCollector::Hold() { service_->Hold(); }

void OtlpCollector::Fail() { service_->Fail(); }

void OtlpCollector::Release() { service_->Release(); }

std::vector<ReceivedSpan> OtlpCollector::WaitForSpans(size_t count, absl::Duration deadline) {
  return service_->WaitForSpans(count, deadline);
}

}  // namespace callboard::test
