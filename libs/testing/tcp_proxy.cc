#include "libs/testing/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"

namespace callboard::test {
namespace {

sockaddr_in AddressOf(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  int port = 0;
  CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &port)) << text;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  CHECK_EQ(inet_pton(AF_INET, parts[0].c_str(), &address.sin_addr), 1) << text;
  return address;
}

// Closes with a reset, so that neither side takes it for a regular end.
void CutOff(int socket) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  close(socket);
}

}  // namespace

TcpProxy::TcpProxy(const std::string& target) : target_(target) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  CHECK_GE(listener_, 0);
  sockaddr_in address = AddressOf("127.0.0.1:0");
  CHECK_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  CHECK_EQ(listen(listener_, 64), 0);
  socklen_t size = sizeof(address);
  CHECK_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  CHECK_GE(wake_, 0);
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  base::MutexLock lock(mutex_);
  CloseAll();
  close(listener_);
  close(wake_);
}

void TcpProxy::Wake() { CHECK_EQ(eventfd_write(wake_, 1), 0); }

void TcpProxy::Set(Direction direction, Flow flow) {
  {
    base::MutexLock lock(mutex_);
    (direction == Direction::kToServer ? to_server_ : to_client_) = flow;
  }
  Wake();
}

void TcpProxy::SetDelay(absl::Duration delay) {
  base::MutexLock lock(mutex_);
  delay_ = delay;
}

void TcpProxy::CutEveryNthPiece(uint64_t pieces) {
  base::MutexLock lock(mutex_);
  cut_every_ = pieces;
}

void TcpProxy::Cut() {
  {
    base::MutexLock lock(mutex_);
    CloseAll();
  }
  Wake();
}

void TcpProxy::Accept(bool accept) {
  base::MutexLock lock(mutex_);
  accept_ = accept;
}

void TcpProxy::SetTarget(const std::string& target) {
  base::MutexLock lock(mutex_);
  target_ = target;
}

void TcpProxy::RecordAnswers() {
  base::MutexLock lock(mutex_);
  records_answers_ = true;
}

std::string TcpProxy::answers() const {
  base::MutexLock lock(mutex_);
  return answers_;
}

uint64_t TcpProxy::bytes_to_server() const {
  base::MutexLock lock(mutex_);
  return bytes_to_server_;
}

uint64_t TcpProxy::attempts() const {
  base::MutexLock lock(mutex_);
  return attempts_;
}

size_t TcpProxy::connections() const {
  base::MutexLock lock(mutex_);
  return connections_.size();
}

void TcpProxy::CloseAll() {
  for (const Connection& connection : connections_) {
    CutOff(connection.client);
    CutOff(connection.server);
  }
  connections_.clear();
}

void TcpProxy::Run() {
  while (true) {
    std::vector<pollfd> watched = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    int timeout = -1;
    {
      base::MutexLock lock(mutex_);
      if (stopping_) return;
      timeout = UntilNextPiece();
      for (const Connection& connection : connections_) {
        // Bytes are read even while they are held, so that the sender notices only when the socket
        // buffers are full.
        watched.push_back({connection.client, POLLIN, 0});
        watched.push_back({connection.server, POLLIN, 0});
      }
    }
    if (poll(watched.data(), watched.size(), timeout) < 0) {
      CHECK_EQ(errno, EINTR);
      continue;
    }
    eventfd_t ignored = 0;
    eventfd_read(wake_, &ignored);
    base::MutexLock lock(mutex_);
    if (stopping_) return;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto is_ready = [&](int socket) {
        for (const pollfd& one : watched) {
          if (one.fd == socket) return one.revents != 0;
        }
        return false;
      };
      if (Pump(*it, is_ready(it->client), is_ready(it->server))) {
        ++it;
      } else {
        CutOff(it->client);
        CutOff(it->server);
        it = connections_.erase(it);
      }
    }
    if (watched[0].revents != 0) AcceptOne();
  }
}

int TcpProxy::UntilNextPiece() const {
  absl::Duration due = absl::InfiniteDuration();
  for (const Connection& connection : connections_) {
    if (to_server_ == Flow::kForwarded && !connection.to_server.empty()) {
      due = std::min(due, connection.to_server.front().due);
    }
    if (to_client_ == Flow::kForwarded && !connection.to_client.empty()) {
      due = std::min(due, connection.to_client.front().due);
    }
  }
  if (due == absl::InfiniteDuration()) return -1;
  const absl::Duration wait = std::max(due - clock_.MonotonicNow(), absl::ZeroDuration());
  // Rounded up, so that poll() does not return too early.
  return static_cast<int>(absl::ToInt64Milliseconds(wait + absl::Milliseconds(1)));
}

void TcpProxy::AcceptOne() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  ++attempts_;
  if (!accept_ || target_.empty()) return CutOff(client);
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  CHECK_GE(server, 0);
  const sockaddr_in target = AddressOf(target_);
  if (connect(server, reinterpret_cast<const sockaddr*>(&target), sizeof(target)) != 0) {
    CutOff(client);
    CutOff(server);
    return;
  }
  const int on = 1;
  for (const int socket : {client, server}) {
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  connections_.push_back({client, server, {}, {}});
}

bool TcpProxy::Pump(Connection& connection, bool client_ready, bool server_ready) {
  return Move(connection.client, connection.server, client_ready, to_server_, connection.to_server,
              &bytes_to_server_, nullptr) &&
         Move(connection.server, connection.client, server_ready, to_client_, connection.to_client,
              nullptr, records_answers_ ? &answers_ : nullptr);
}

bool TcpProxy::IsCut() { return cut_every_ != 0 && ++pieces_ % cut_every_ == 0; }

bool TcpProxy::Move(int from, int to, bool ready, Flow flow, std::deque<Piece>& waiting,
                    uint64_t* counter, std::string* record) {
  const absl::Duration now = clock_.MonotonicNow();
  if (ready) {
    char chunk[65536];
    const ssize_t count = recv(from, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) {
      if (IsCut()) return false;
      if (counter != nullptr) *counter += static_cast<uint64_t>(count);
      if (record != nullptr) record->append(chunk, static_cast<size_t>(count));
      if (flow != Flow::kDropped) {
        waiting.push_back({now + delay_, std::string(chunk, static_cast<size_t>(count))});
      }
    }
  }
  while (flow == Flow::kForwarded && !waiting.empty() && waiting.front().due <= now) {
    std::string& bytes = waiting.front().bytes;
    // Tests send little data at a time, so this does not block.
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return false;
    bytes.erase(0, static_cast<size_t>(sent));
    if (bytes.empty()) waiting.pop_front();
  }
  return true;
}

}  // namespace callboard::test
