// The connections that a server accepts, and the bound on calls that each of them resets.

#ifndef CALLBOARD_LIBS_SERVER_WORKAROUNDS_CONNECTION_ACCEPTOR_H_
#define CALLBOARD_LIBS_SERVER_WORKAROUNDS_CONNECTION_ACCEPTOR_H_

#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/server/listen_address.h"

namespace callboard::server {

// Listens on an address and passes each accepted socket to a callback.
//
// Used instead of gRPC's listener, which stops listening permanently once the process has no free
// descriptor. This one continues, and leaves some descriptors to the rest of the process.
class ConnectionAcceptor {
 public:
  // Opens the port. Connections wait in the backlog until Start(). Connections whose descriptor is
  // not below `descriptors_max` are closed immediately. Returns UNAVAILABLE if it cannot listen on
  // the address.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const ListenAddress& address,
                                                                    int descriptors_max);
  // Calls Stop().
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  uint16_t port() const { return port_; }

  // Starts the thread that accepts connections. Passes each one, as a non-blocking socket, to
  // `on_accept`, which takes ownership and runs on that thread.
  //
  // REQUIRES: called once.
  void Start(std::function<void(int socket)> on_accept);
  // Closes the port. `on_accept` does not run afterwards.
  void Stop();
  // Resets the connection of `peer`, if it is still open; the owner of its socket reads an error,
  // not the bytes that have arrived. `peer` is a name as gRPC writes it: `ipv4:10.0.0.7:51234`.
  // Thread-safe.
  void Disconnect(const std::string& peer);

 private:
  ConnectionAcceptor(int wake, int descriptors_max)
      : wake_event_(wake), descriptors_max_(descriptors_max) {}

  absl::Status Bind(const std::string& host, uint16_t port);
  void Run();
  // Accepts all waiting connections. Returns false if the process has no free descriptor.
  bool AcceptAll(int listener);
  void CloseExcess(int socket);
  void TrackPeer(int socket);

  const int wake_event_;
  const int descriptors_max_;
  uint16_t port_ = 0;
  // One, or two for localhost, which has two addresses.
  std::vector<int> listeners_;
  std::function<void(int socket)> on_accept_;
  uint64_t closed_count_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;

  base::Mutex mutex_;
  // The last accepted connection of each descriptor. It may be closed by now.
  absl::flat_hash_map<std::string, int> by_peer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, std::string> by_socket_ ABSL_GUARDED_BY(mutex_);
};

struct ConnectionCallLimits {
  // Calls of a connection that the server has not ended.
  size_t open_max;
  // Calls that were reset before their request arrived, minus the calls that were not.
  size_t reset_max;
};

// Counts the calls of each connection, and closes a connection that resets calls faster than the
// server can end them (HTTP/2 rapid reset).
//
// gRPC 1.51 bounds the calls that a client has open, but not those that it has reset: each costs
// 24 KiB until the server has processed its end. Two limits bound them. `reset_max` counts calls
// that were reset immediately: they never have a request, which is known as soon as the server sees
// the call. `open_max` counts calls that were reset later: the server still holds them, in addition
// to the calls that the client may have open.
//
// Thread-safe.
class ConnectionCalls {
 public:
  // `close` is called with the peer of a connection above a limit, possibly more than once. It runs
  // on a gRPC thread and must not block.
  ConnectionCalls(const ConnectionCallLimits& limits,
                  std::function<void(const std::string& peer)> close)
      : limits_(limits), close_(std::move(close)) {}

  void StartCall(const std::string& peer);
  // Records that the request of a call has arrived, or (`has_request` is false) that it never will.
  void RecordRequest(const std::string& peer, bool has_request);
  void EndCall(const std::string& peer);

 private:
  struct Connection {
    size_t open = 0;
    size_t reset = 0;
  };

  const ConnectionCallLimits limits_;
  const std::function<void(const std::string& peer)> close_;
  base::Mutex mutex_;
  // The connections with calls, by peer as gRPC names it.
  absl::flat_hash_map<std::string, Connection> connections_ ABSL_GUARDED_BY(mutex_);
};

// Returns interceptors that report every call to `calls`, which outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewConnectionCallsInterceptorFactory(ConnectionCalls& calls);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_WORKAROUNDS_CONNECTION_ACCEPTOR_H_
