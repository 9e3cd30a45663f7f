#ifndef CALLBOARD_LIBS_SERVER_GRPC_SERVER_H_
#define CALLBOARD_LIBS_SERVER_GRPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/ports/clock.h"
#include "libs/server/connection_acceptor.h"
#include "libs/server/connection_calls.h"
#include "libs/server/listen_address.h"
#include "libs/server/reflection.h"

namespace callboard::server {

// A service under the name that health knows it by: v1::QueueService::service_full_name().
struct ServedService {
  std::string name;
  // Outlives the server.
  grpc::Service* service;
};

struct GrpcServerOptions {
  ListenAddress listen;
  // Connections whose descriptor is not below this are closed at once (DescriptorShares).
  int descriptors_max = 1 << 20;
  // Connections are closed gracefully when they get this old, so that clients spread over servers
  // again; calls under way get five more minutes. Infinite for a server whose calls are not to end.
  absl::Duration connection_age_max = absl::Hours(1);
  // Where to show how calls end (libs/server/rpc_metrics.h), and the clock that times them; null
  // when nobody wants to know. Both outlive the server.
  prometheus::Registry* metrics = nullptr;
  const ports::Clock* clock = nullptr;
};

// A gRPC server with everything that all of ours share: health, reflection, keepalive, limits.
class GrpcServer {
 public:
  // Serves `services`, all healthy from the start. UNAVAILABLE when the address cannot be listened
  // on.
  //
  // REQUIRES: with `options.metrics` there is `options.clock`.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      const GrpcServerOptions& options, const std::vector<ServedService>& services);
  // Ends every call.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  uint16_t port() const { return acceptor_->port(); }

  // What health answers from now on. Calls are taken either way.
  void SetServing(bool serving);
  // As SetServing(false), for good.
  void StopServing();

  // Takes no more calls, and ends those that have not ended within `grace`.
  void Shutdown(absl::Duration grace);

 private:
  using Door = grpc::experimental::ExternalConnectionAcceptor;

  GrpcServer(std::unique_ptr<ConnectionAcceptor> acceptor, std::unique_ptr<ConnectionCalls> calls,
             std::unique_ptr<Door> door, std::unique_ptr<Reflection> reflection,
             std::unique_ptr<grpc::Server> server);

  // Used by the calls of the server, so they are destroyed after it.
  const std::unique_ptr<ConnectionAcceptor> acceptor_;
  const std::unique_ptr<ConnectionCalls> calls_;
  // Where gRPC takes connections.
  const std::unique_ptr<Door> door_;
  const std::unique_ptr<Reflection> reflection_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_GRPC_SERVER_H_
