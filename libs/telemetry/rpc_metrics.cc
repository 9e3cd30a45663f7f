#include "libs/telemetry/rpc_metrics.h"

#include <google/protobuf/descriptor.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::telemetry {
namespace {

using grpc::experimental::Interceptor;
using grpc::experimental::ServerRpcInfo;

// Calls `on_status` with the code of a call, when its status is sent. That happens once per call.
class StatusInterceptor final : public Interceptor {
 public:
  explicit StatusInterceptor(std::function<void(absl::StatusCode)> on_status)
      : on_status_(std::move(on_status)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_STATUS)) {
      on_status_(static_cast<absl::StatusCode>(methods->GetSendStatus().error_code()));
    }
    methods->Proceed();
  }

 private:
  const std::function<void(absl::StatusCode)> on_status_;
};

class RpcMetrics final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  RpcMetrics(const std::vector<std::string>& services, prometheus::Registry& registry,
             const ports::Clock& clock)
      : clock_(clock),
        durations_(prometheus::BuildHistogram()
                       .Name("callboard_rpc_duration_seconds")
                       .Help("Unary calls, from arrival to answer.")
                       .Register(registry)),
        streams_ended_(prometheus::BuildCounter()
                           .Name("callboard_rpc_streams_total")
                           .Help("Streams that have ended.")
                           .Register(registry)),
        streams_open_(prometheus::BuildGauge()
                          .Name("callboard_rpc_streams_open")
                          .Help("Streams that have not ended.")
                          .Register(registry)) {
    for (const std::string& name : services) {
      const google::protobuf::ServiceDescriptor* const service =
          google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
      CHECK(service != nullptr) << name;
      for (int i = 0; i < service->method_count(); ++i) {
        const std::string& method = service->method(i)->name();
        methods_[absl::StrCat("/", name, "/", method)].labels = {{"service", name},
                                                                 {"method", method}};
      }
    }
  }

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    const auto found = methods_.find(info->method());
    // gRPC also calls this for methods that do not exist.
    if (found == methods_.end()) return nullptr;
    Method& method = found->second;
    if (info->type() == ServerRpcInfo::Type::UNARY) {
      return new StatusInterceptor([this, &method, start = clock_.MonotonicNow()](auto code) {
        DurationHistogram(method, code)
            .Observe(absl::ToDoubleSeconds(clock_.MonotonicNow() - start));
      });
    }
    prometheus::Gauge& open = streams_open_.Add(method.labels);
    open.Increment();
    return new StatusInterceptor([this, &method, &open](auto code) {
      open.Decrement();
      streams_ended_.Add(WithCode(method.labels, code)).Increment();
    });
  }

 private:
  struct Method {
    prometheus::Labels labels;
    // Indexed by code. Null until a call has ended with that code.
    std::array<std::atomic<prometheus::Histogram*>, 17> durations = {};
  };

  // Returns the histogram of a method and code. Caches it, because a lookup by labels costs a copy,
  // a hash and a lock.
  prometheus::Histogram& DurationHistogram(Method& method, absl::StatusCode code) {
    const auto index = static_cast<size_t>(code);
    if (index >= method.durations.size()) {
      return durations_.Add(WithCode(method.labels, code), buckets_);
    }
    prometheus::Histogram* known = method.durations[index];
    if (known == nullptr) {
      known = &durations_.Add(WithCode(method.labels, code), buckets_);
      method.durations[index] = known;
    }
    return *known;
  }

  static prometheus::Labels WithCode(prometheus::Labels method, absl::StatusCode code) {
    method["code"] = absl::StatusCodeToString(code);
    return method;
  }

  const ports::Clock& clock_;
  // In seconds. Covers a read from memory, a commit, and a caller that waits for a place.
  const prometheus::Histogram::BucketBoundaries buckets_ = {
      0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
  // Owned by the registry. Family::Add() returns the existing series if there is one.
  prometheus::Family<prometheus::Histogram>& durations_;
  prometheus::Family<prometheus::Counter>& streams_ended_;
  prometheus::Family<prometheus::Gauge>& streams_open_;
  // Keyed by path, such as /callboard.v1.QueueService/GetTask. The keys never change.
  std::map<std::string, Method, std::less<>> methods_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewRpcMetricsInterceptorFactory(const std::vector<std::string>& services,
                                prometheus::Registry& registry, const ports::Clock& clock) {
  return std::make_unique<RpcMetrics>(services, registry, clock);
}

}  // namespace callboard::telemetry
