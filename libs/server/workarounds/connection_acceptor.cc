#include "libs/server/workarounds/connection_acceptor.h"

#include <arpa/inet.h>
#include <grpcpp/server_context.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/log.h"

namespace callboard::server {

// ---- ConnectionAcceptor -------------------------------------------------------------------------

namespace {

constexpr int kPauseMilliseconds = 100;

// IPv4 or IPv6.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  // Both families have the port at the same offset.
  in_port_t& port() { return reinterpret_cast<sockaddr_in&>(storage).sin_port; }
};

// REQUIRES: `host` is an IP address.
SocketAddress MakeSocketAddress(const std::string& host, uint16_t port) {
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    address.size = sizeof(v4);
  } else {
    CHECK_EQ(inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr), 1) << host;
    v6.sin6_family = AF_INET6;
    address.size = sizeof(v6);
  }
  address.port() = htons(port);
  return address;
}

// Returns the peer of a connection as gRPC names it, or empty if the descriptor is not connected.
std::string PeerName(int socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (getpeername(socket, address.get(), &address.size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  const uint16_t port = ntohs(address.port());
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", port);
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", port);
}

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const ListenAddress& address, int descriptors_max) {
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) return absl::UnavailableError(absl::StrCat("cannot listen: ", strerror(errno)));
  std::unique_ptr<ConnectionAcceptor> acceptor(new ConnectionAcceptor(wake, descriptors_max));
  const bool is_localhost = address.host == "localhost";
  const absl::Status bound =
      acceptor->Bind(is_localhost ? "127.0.0.1" : address.host, address.port);
  if (!bound.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ", bound.message()));
  }
  if (!is_localhost) return acceptor;
  const absl::Status second = acceptor->Bind("::1", acceptor->port_);
  // Not every machine has IPv6, so other errors are ignored. But if another process has this port,
  // about half of our clients would connect to it.
  if (absl::IsAlreadyExists(second)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on [::1]:", acceptor->port_, ": ", second.message()));
  }
  return acceptor;
}

absl::Status ConnectionAcceptor::Bind(const std::string& host, uint16_t port) {
  SocketAddress address = MakeSocketAddress(host, port);
  const int listener =
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return absl::UnavailableError(strerror(errno));
  // Lets a restarted server listen while connections of the previous one are in TIME_WAIT.
  SetOption(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(listener, address.get(), address.size) != 0 || listen(listener, SOMAXCONN) != 0 ||
      getsockname(listener, address.get(), &address.size) != 0) {
    const absl::Status error = errno == EADDRINUSE ? absl::AlreadyExistsError(strerror(errno))
                                                   : absl::UnavailableError(strerror(errno));
    close(listener);
    return error;
  }
  port_ = ntohs(address.port());
  listeners_.push_back(listener);
  return absl::OkStatus();
}

ConnectionAcceptor::~ConnectionAcceptor() {
  Stop();
  close(wake_event_);
}

void ConnectionAcceptor::Start(std::function<void(int socket)> on_accept) {
  CHECK(!thread_.joinable());
  on_accept_ = std::move(on_accept);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  stopping_ = true;
  CHECK_EQ(eventfd_write(wake_event_, 1), 0);
  if (thread_.joinable()) thread_.join();
  for (const int listener : listeners_) close(listener);
  listeners_.clear();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> sources = {{wake_event_, POLLIN, 0}};
  for (const int listener : listeners_) sources.push_back({listener, POLLIN, 0});
  while (true) {
    poll(sources.data(), sources.size(), /*timeout=*/-1);
    if (stopping_) return;
    for (const int listener : listeners_) {
      // Without a pause, poll() would return immediately every time.
      if (!AcceptAll(listener)) poll(sources.data(), 1, kPauseMilliseconds);
    }
  }
}

bool ConnectionAcceptor::AcceptAll(int listener) {
  while (!stopping_) {
    const int socket = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    // The kernel assigns the smallest free descriptor, so all below are in use.
    if (socket >= descriptors_max_) {
      CloseExcess(socket);
      continue;
    }
    SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    TrackPeer(socket);
    on_accept_(socket);
  }
  return true;
}

void ConnectionAcceptor::TrackPeer(int socket) {
  std::string peer = PeerName(socket);
  base::MutexLock lock(mutex_);
  // The descriptor is reused, so its previous connection is closed.
  std::string& tracked = by_socket_[socket];
  const auto before = by_peer_.find(tracked);
  if (before != by_peer_.end() && before->second == socket) by_peer_.erase(before);
  by_peer_[peer] = socket;
  tracked = std::move(peer);
}

void ConnectionAcceptor::Disconnect(const std::string& peer) {
  base::MutexLock lock(mutex_);
  const auto found = by_peer_.find(peer);
  // gRPC closes descriptors itself, so this one may belong to another file by now.
  if (found == by_peer_.end() || PeerName(found->second) != peer) return;
  // Resets the connection and discards the bytes that have arrived. shutdown() would do neither:
  // gRPC would read what is left, and a peer that waits for space to send more would wait for
  // minutes.
  const sockaddr unspecified = {.sa_family = AF_UNSPEC, .sa_data = {}};
  connect(found->second, &unspecified, sizeof(unspecified));
  by_peer_.erase(found);
  base::LogWarning("server", "connection_closed",
                   {{"peer", peer}, {"why", "it cancels calls faster than they can be ended"}});
}

void ConnectionAcceptor::CloseExcess(int socket) {
  close(socket);
  ++closed_count_;
  // Logs only when the count doubles, so that clients cannot fill the log.
  if ((closed_count_ & (closed_count_ - 1)) == 0) {
    base::LogWarning("server", "connection_refused",
                     {{"why", "too many connections"},
                      {"descriptors", descriptors_max_},
                      {"refused", closed_count_}});
  }
}

// ---- ConnectionCalls ----------------------------------------------------------------------------

namespace {

class CountedCall final : public grpc::experimental::Interceptor {
 public:
  CountedCall(ConnectionCalls& calls, std::string peer) : calls_(calls), peer_(std::move(peer)) {
    calls_.StartCall(peer_);
  }
  // gRPC destroys the interceptor at the end of the call.
  ~CountedCall() override { calls_.EndCall(peer_); }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (!request_recorded_ && methods->QueryInterceptionHookPoint(
                                  grpc::experimental::InterceptionHookPoints::POST_RECV_MESSAGE)) {
      request_recorded_ = true;
      calls_.RecordRequest(peer_, methods->GetRecvMessage() != nullptr);
    }
    methods->Proceed();
  }

 private:
  ConnectionCalls& calls_;
  const std::string peer_;
  bool request_recorded_ = false;
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

void ConnectionCalls::StartCall(const std::string& peer) {
  {
    base::MutexLock lock(mutex_);
    if (++connections_[peer].open <= limits_.open_max) return;
  }
  close_(peer);
}

void ConnectionCalls::RecordRequest(const std::string& peer, bool has_request) {
  {
    base::MutexLock lock(mutex_);
    size_t& reset = connections_.at(peer).reset;
    if (has_request) {
      if (reset > 0) --reset;
      return;
    }
    if (++reset <= limits_.reset_max) return;
  }
  close_(peer);
}

void ConnectionCalls::EndCall(const std::string& peer) {
  base::MutexLock lock(mutex_);
  const auto found = connections_.find(peer);
  if (--found->second.open == 0) connections_.erase(found);
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewConnectionCallsInterceptorFactory(ConnectionCalls& calls) {
  return std::make_unique<CountedCallFactory>(calls);
}

}  // namespace callboard::server
