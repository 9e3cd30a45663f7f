// The gRPC server of every program: its ports, the descriptors that they may use, and error
// details.

#ifndef CALLBOARD_LIBS_SERVER_GRPC_SERVER_H_
#define CALLBOARD_LIBS_SERVER_GRPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/ports/environment.h"
#include "libs/server/listen_address.h"
#include "libs/server/workarounds/connection_acceptor.h"
#include "libs/server/workarounds/reflection.h"

namespace callboard::server {

// Limits on the descriptors that connections of each kind may use. A new connection gets the
// smallest free descriptor. If that is not below the share of its kind, the server closes it.
//
// HTTP has a larger share than gRPC, so that probes are answered when gRPC has used its whole
// share. The rest is for the store and for outgoing connections.
struct DescriptorShares {
  int grpc = 0;
  int http = 0;
};

// Raises the descriptor limit of the process to the maximum that the system allows, and divides it.
DescriptorShares ShareDescriptors();

// Returns interceptors that add details to errors without any: errors of gRPC itself, and the
// UNIMPLEMENTED of methods that this server does not serve, which also gets a message. A request
// that does not parse is answered with INVALID_ARGUMENT.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewErrorDetailInterceptorFactory();

// A service and its name for health checks: v1::QueueService::service_full_name().
struct ServedService {
  std::string name;
  // Outlives the server.
  grpc::Service* service;
};

struct GrpcServerOptions {
  ListenAddress listen;
  // Connections whose descriptor is not below this are closed immediately (DescriptorShares).
  int descriptors_max = 1 << 20;
  // The age at which connections are closed gracefully, so that clients reconnect and spread over
  // servers. Open calls get five more minutes. Infinite for a server with calls that must not end.
  absl::Duration connection_age_max = absl::Hours(1);
  // The registry for metrics of calls (libs/telemetry/rpc_metrics.h), and the clock that measures
  // them. Null records no metrics. Both outlive the server.
  prometheus::Registry* metrics = nullptr;
  const ports::Clock* clock = nullptr;
};

// A gRPC server with the features that all our servers share: health, reflection, keepalive,
// limits. Thread-safe, except Shutdown() and destruction.
class GrpcServer {
 public:
  // Starts to serve `services`, which are all healthy at first. Returns UNAVAILABLE if it cannot
  // listen on the address.
  //
  // REQUIRES: if `options.metrics` is set, so is `options.clock`.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const GrpcServerOptions& options, const std::vector<ServedService>& services);
  // Ends every call.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  uint16_t port() const { return acceptor_->port(); }

  // Sets the answer of the health service. Calls are accepted either way.
  void SetServing(bool serving);
  // Calls SetServing(false) and ignores later calls of SetServing().
  void StopServing();

  // Accepts no more calls, waits up to `grace` for open calls, and ends the rest.
  void Shutdown(absl::Duration grace);

 private:
  using ExternalAcceptor = grpc::experimental::ExternalConnectionAcceptor;

  GrpcServer(std::unique_ptr<ConnectionAcceptor> acceptor, std::unique_ptr<ConnectionCalls> calls,
             std::unique_ptr<ExternalAcceptor> external_acceptor,
             std::unique_ptr<Reflection> reflection, std::unique_ptr<grpc::Server> server);

  // Used by the calls of the server, so they are destroyed after it.
  const std::unique_ptr<ConnectionAcceptor> acceptor_;
  const std::unique_ptr<ConnectionCalls> calls_;
  // Passes accepted connections to gRPC.
  const std::unique_ptr<ExternalAcceptor> external_acceptor_;
  const std::unique_ptr<Reflection> reflection_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_GRPC_SERVER_H_
