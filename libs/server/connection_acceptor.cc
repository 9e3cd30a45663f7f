#include "libs/server/connection_acceptor.h"

#include <arpa/inet.h>
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
namespace {

constexpr int kPauseMilliseconds = 100;

// IPv4 or IPv6.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  // Where either kind has it.
  in_port_t& port() { return reinterpret_cast<sockaddr_in&>(storage).sin_port; }
};

// REQUIRES: `host` is an IP address.
SocketAddress AddressFrom(const std::string& host, uint16_t port) {
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

// The peer of a connection as gRPC names it; empty when the descriptor is no connection any more.
std::string PeerOf(int socket) {
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
  const bool has_two = address.host == "localhost";
  const absl::Status bound = acceptor->Bind(has_two ? "127.0.0.1" : address.host, address.port);
  if (!bound.ok()) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address.ToString(), ": ", bound.message()));
  }
  if (!has_two) return acceptor;
  const absl::Status second = acceptor->Bind("::1", acceptor->port_);
  // Not every machine has it; but where somebody else does, half of our clients would get there.
  if (absl::IsAlreadyExists(second)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on [::1]:", acceptor->port_, ": ", second.message()));
  }
  return acceptor;
}

absl::Status ConnectionAcceptor::Bind(const std::string& host, uint16_t port) {
  SocketAddress address = AddressFrom(host, port);
  const int listener =
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return absl::UnavailableError(strerror(errno));
  // So that a server that comes back needs not wait for the connections of the last one.
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
  close(wake_);
}

void ConnectionAcceptor::Start(std::function<void(int socket)> take) {
  CHECK(!thread_.joinable());
  take_ = std::move(take);
  thread_ = std::thread([this] { Run(); });
}

void ConnectionAcceptor::Stop() {
  stopping_ = true;
  CHECK_EQ(eventfd_write(wake_, 1), 0);
  if (thread_.joinable()) thread_.join();
  for (const int listener : listeners_) close(listener);
  listeners_.clear();
}

void ConnectionAcceptor::Run() {
  std::vector<pollfd> sources = {{wake_, POLLIN, 0}};
  for (const int listener : listeners_) sources.push_back({listener, POLLIN, 0});
  while (true) {
    poll(sources.data(), sources.size(), /*timeout=*/-1);
    if (stopping_) return;
    for (const int listener : listeners_) {
      // It would be ready again at once, and every time.
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
    // The smallest number that is free.
    if (socket >= descriptors_max_) {
      Refuse(socket);
      continue;
    }
    SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    Remember(socket);
    take_(socket);
  }
  return true;
}

void ConnectionAcceptor::Remember(int socket) {
  std::string peer = PeerOf(socket);
  base::MutexLock lock(mutex_);
  // The descriptor is in use again, so its connection before this one is closed.
  std::string& known = by_socket_[socket];
  const auto before = by_peer_.find(known);
  if (before != by_peer_.end() && before->second == socket) by_peer_.erase(before);
  by_peer_[peer] = socket;
  known = std::move(peer);
}

void ConnectionAcceptor::Disconnect(const std::string& peer) {
  base::MutexLock lock(mutex_);
  const auto found = by_peer_.find(peer);
  // gRPC closes descriptors by itself, and the number may stand for something else by now.
  if (found == by_peer_.end() || PeerOf(found->second) != peer) return;
  shutdown(found->second, SHUT_RDWR);
  by_peer_.erase(found);
  base::LogWarning("server", "connection_closed",
                   {{"peer", peer}, {"why", "it takes calls back faster than they can be ended"}});
}

void ConnectionAcceptor::Refuse(int socket) {
  close(socket);
  ++refused_;
  // Each time that there are twice as many, so that nobody fills the log.
  if ((refused_ & (refused_ - 1)) == 0) {
    base::LogWarning("server", "connection_refused",
                     {{"why", "too many connections"},
                      {"descriptors", descriptors_max_},
                      {"refused", refused_}});
  }
}

}  // namespace callboard::server
