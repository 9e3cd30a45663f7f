#include "libs/adapters/client_tracing/client_tracing.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/core/trace_context.h"
#include "libs/ports/rpc_span.h"

namespace callboard::adapters {
namespace {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;

// One call.
class CallInterceptor final : public Interceptor {
 public:
  CallInterceptor(const ports::Tracing& tracing, absl::string_view method)
      : tracing_(tracing), method_(absl::StripPrefix(method, "/")) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      Begin(*methods->GetSendInitialMetadata());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_STATUS) &&
        parent_.has_value()) {
      End(static_cast<absl::StatusCode>(methods->GetRecvStatus()->error_code()));
    }
    methods->Proceed();
  }

 private:
  void Begin(std::multimap<std::string, std::string>& metadata) {
    const auto found = metadata.find(ports::kTraceparent);
    if (found == metadata.end()) return;
    parent_ = core::ParseTraceparent(found->second);
    if (!parent_.has_value()) return;
    context_ = *parent_;
    context_.span_id = core::NewSpan(tracing_.random.Next());
    began_ = tracing_.clock.WallNow();
    found->second = core::FormatTraceparent(context_);
  }

  void End(absl::StatusCode code) const {
    ports::FinishedSpan span = ports::RpcSpan(ports::SpanKind::kClient, method_, code);
    span.context = context_;
    span.parent = parent_->span_id;
    span.start = began_;
    span.end = tracing_.clock.WallNow();
    tracing_.telemetry.Emit(std::move(span));
  }

  const ports::Tracing tracing_;
  const std::string method_;
  // Absent when the call is part of no trace.
  std::optional<core::SpanContext> parent_;
  core::SpanContext context_;
  absl::Time began_;
};

class CallInterceptors final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit CallInterceptors(const ports::Tracing& tracing) : tracing_(tracing) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    return new CallInterceptor(tracing_, info->method());
  }

 private:
  const ports::Tracing tracing_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TracingInterceptors(const ports::Tracing& tracing) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> all;
  if (tracing.telemetry.is_on()) all.push_back(std::make_unique<CallInterceptors>(tracing));
  return all;
}

}  // namespace callboard::adapters
