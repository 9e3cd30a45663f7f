#include "libs/server/connection_calls.h"

#include <grpcpp/server_context.h>

#include <utility>

namespace callboard::server {
namespace {

class CountedCall final : public grpc::experimental::Interceptor {
 public:
  CountedCall(ConnectionCalls& calls, std::string peer) : calls_(calls), peer_(std::move(peer)) {
    calls_.Begin(peer_);
  }
  // With the call.
  ~CountedCall() override { calls_.End(peer_); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (!has_heard_ && methods->QueryInterceptionHookPoint(
                           grpc::experimental::InterceptionHookPoints::POST_RECV_MESSAGE)) {
      has_heard_ = true;
      calls_.HasRequest(peer_, methods->GetRecvMessage() != nullptr);
    }
    methods->Proceed();
  }

 private:
  ConnectionCalls& calls_;
  const std::string peer_;
  bool has_heard_ = false;
};

class CountedCallFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CountedCallFactory(ConnectionCalls& calls) : calls_(calls) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new CountedCall(calls_, info->server_context()->peer());
  }

 private:
  ConnectionCalls& calls_;
};

}  // namespace

void ConnectionCalls::Begin(const std::string& peer) {
  {
    base::MutexLock lock(mutex_);
    if (++connections_[peer].open <= limits_.open_max) return;
  }
  close_(peer);
}

void ConnectionCalls::HasRequest(const std::string& peer, bool has_request) {
  {
    base::MutexLock lock(mutex_);
    size_t& taken_back = connections_.at(peer).taken_back;
    if (has_request) {
      if (taken_back > 0) --taken_back;
      return;
    }
    if (++taken_back <= limits_.taken_back_max) return;
  }
  close_(peer);
}

void ConnectionCalls::End(const std::string& peer) {
  base::MutexLock lock(mutex_);
  const auto found = connections_.find(peer);
  if (--found->second.open == 0) connections_.erase(found);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewConnectionCallsInterceptorFactory(ConnectionCalls& calls) {
  return std::make_unique<CountedCallFactory>(calls);
}

}  // namespace callboard::server
