#ifndef CALLBOARD_LIBS_SERVER_CONNECTION_ACCEPTOR_H_
#define CALLBOARD_LIBS_SERVER_CONNECTION_ACCEPTOR_H_

#include <atomic>
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

// Listens on an address, and hands whoever connects to somebody who talks to him.
//
// gRPC's own listener gives up its port for good when the process once has no descriptor left. This
// one goes on, and leaves some to others.
class ConnectionAcceptor {
 public:
  // Connections wait until Start(); those whose descriptor is not below `descriptors_max` are
  // closed at once. UNAVAILABLE when the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const ListenAddress& address,
                                                                    int descriptors_max);
  // As Stop().
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  uint16_t port() const { return port_; }

  // From now on gives each connection, a socket that does not block, to `take`, which closes it
  // when it is done with it. Runs on a thread of the acceptor.
  //
  // REQUIRES: called once.
  void Start(std::function<void(int socket)> take);
  // Closes the port; nothing is taken afterwards.
  void Stop();
  // Ends the connection of a peer as gRPC names it, `ipv4:10.0.0.7:51234`, if it is still open:
  // whoever has taken it sees its end. Thread-safe.
  void Disconnect(const std::string& peer);

 private:
  ConnectionAcceptor(int wake, int descriptors_max)
      : wake_(wake), descriptors_max_(descriptors_max) {}

  absl::Status Bind(const std::string& host, uint16_t port);
  void Run();
  // False when descriptors are short.
  bool AcceptAll(int listener);
  void Refuse(int socket);
  void Remember(int socket);

  const int wake_;
  const int descriptors_max_;
  uint16_t port_ = 0;
  // One, or two where a name stands for two addresses.
  std::vector<int> listeners_;
  std::function<void(int socket)> take_;
  uint64_t refused_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;

  base::Mutex mutex_;
  // Of the connections that were taken, the last one of each descriptor. It may be closed by now.
  absl::flat_hash_map<std::string, int> by_peer_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<int, std::string> by_socket_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_CONNECTION_ACCEPTOR_H_
