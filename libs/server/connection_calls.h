#ifndef CALLBOARD_LIBS_SERVER_CONNECTION_CALLS_H_
#define CALLBOARD_LIBS_SERVER_CONNECTION_CALLS_H_

#include <grpcpp/support/server_interceptor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "libs/base/mutex.h"

namespace callboard::server {

struct ConnectionCallLimits {
  // Calls that the server has not let go of.
  size_t open_max;
  // Calls that were taken back before their request arrived, less the calls that were not.
  size_t taken_back_max;
};

// Watches the calls of each connection, and closes a connection that takes calls back faster than
// they can be ended (HTTP/2 rapid reset).
//
// gRPC 1.51 bounds the calls that a client has open, but not those that it has taken back: each of
// these costs 24 KiB until the server has heard of its end. Two rules bound them. A call that is
// taken back at once never has a request, which is known as soon as the server hears of the call. A
// call that is taken back later is held beyond the number that a client may have open.
//
// Thread-safe.
class ConnectionCalls {
 public:
  // `close` gets the peer of such a connection, maybe more than once. It runs on a thread of gRPC
  // and must not block.
  ConnectionCalls(const ConnectionCallLimits& limits,
                  std::function<void(const std::string& peer)> close)
      : limits_(limits), close_(std::move(close)) {}

  void Begin(const std::string& peer);
  // The request is there, or never will be.
  void HasRequest(const std::string& peer, bool has_request);
  void End(const std::string& peer);

 private:
  struct Connection {
    size_t open = 0;
    size_t taken_back = 0;
  };

  const ConnectionCallLimits limits_;
  const std::function<void(const std::string& peer)> close_;
  base::Mutex mutex_;
  // By peer, as gRPC names it; only those that have calls.
  absl::flat_hash_map<std::string, Connection> connections_ ABSL_GUARDED_BY(mutex_);
};

// Tells `calls`, which outlives the server, of every call.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewConnectionCallsInterceptorFactory(ConnectionCalls& calls);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_CONNECTION_CALLS_H_
