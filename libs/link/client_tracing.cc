#include "libs/link/client_tracing.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"
#include "libs/wire/status.h"

namespace callboard::link {
namespace {

using grpc::experimental::ClientRpcInfo;
using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;

struct Peer {
  std::string host;
  int64_t port = 0;
};

// Parses host:port. Removes the brackets of an IPv6 address.
Peer ParsePeer(absl::string_view address) {
  const size_t colon = address.rfind(':');
  Peer peer;
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(address.substr(colon + 1), &peer.port)) {
    return {std::string(address)};
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  peer.host = std::string(host);
  return peer;
}

// Emits the span of one call.
class CallInterceptor final : public Interceptor {
 public:
  CallInterceptor(const Peer& peer, const ports::Tracing& tracing, absl::string_view method)
      : peer_(peer), tracing_(tracing), method_(absl::StripPrefix(method, "/")) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      Begin(*methods->GetSendInitialMetadata());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_STATUS) &&
        parent_.has_value()) {
      End(wire::FromGrpc(*methods->GetRecvStatus()));
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
    start_ = tracing_.clock.WallNow();
    found->second = core::FormatTraceparent(context_);
  }

  void End(const absl::Status& status) const {
    if (!tracing_.telemetry.ShouldRecord(context_)) return;
    ports::FinishedSpan span = ports::RpcSpan(ports::SpanKind::kClient, method_, status);
    span.attributes.push_back({ports::span_names::kServerAddress, peer_.host});
    if (peer_.port != 0) span.attributes.push_back({ports::span_names::kServerPort, peer_.port});
    span.context = context_;
    span.parent = parent_->span_id;
    span.start = start_;
    span.end = tracing_.clock.WallNow();
    tracing_.telemetry.Emit(std::move(span));
  }

  const Peer peer_;
  const ports::Tracing tracing_;
  const std::string method_;
  // Absent when the call has no trace.
  std::optional<core::SpanContext> parent_;
  core::SpanContext context_;
  absl::Time start_;
};

class CallInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  CallInterceptorFactory(Peer peer, const ports::Tracing& tracing)
      : peer_(std::move(peer)), tracing_(tracing) {}

  Interceptor* CreateClientInterceptor(ClientRpcInfo* info) override {
    return new CallInterceptor(peer_, tracing_, info->method());
  }

 private:
  const Peer peer_;
  const ports::Tracing tracing_;
};

}  // namespace

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TracingInterceptors(absl::string_view address, const ports::Tracing& tracing) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  if (tracing.telemetry.enabled()) {
    factories.push_back(std::make_unique<CallInterceptorFactory>(ParsePeer(address), tracing));
  }
  return factories;
}

}  // namespace callboard::link
