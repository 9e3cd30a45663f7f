#include "libs/server/workarounds/connection_acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"
#include "libs/testing/http_client.h"
#include "libs/testing/status_matchers.h"

namespace callboard::server {
namespace {

using test::HttpConnection;
using test::StatusIs;
using ::testing::HasSubstr;

constexpr int kManyDescriptors = 1000;

// Holds accepted sockets until CloseAll().
class AcceptedSockets {
 public:
  ~AcceptedSockets() { CloseAll(); }

  void Add(int socket) {
    base::MutexLock lock(mutex_);
    sockets_.push_back(socket);
    changed_.NotifyAll();
  }
  void WaitFor(size_t count) {
    base::MutexLock lock(mutex_);
    while (sockets_.size() < count) changed_.Wait(mutex_);
  }
  size_t size() {
    base::MutexLock lock(mutex_);
    return sockets_.size();
  }
  // Returns the peer of the first socket, as gRPC names it.
  std::string FirstPeer() {
    base::MutexLock lock(mutex_);
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getpeername(sockets_.front(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(address.sin_port));
  }
  // Waits until the first socket has bytes, without reading them.
  void WaitForBytes() {
    base::MutexLock lock(mutex_);
    pollfd first = {sockets_.front(), POLLIN, 0};
    while (poll(&first, 1, /*timeout=*/-1) != 1) {
    }
  }
  // Reads from the first socket. Returns the error or 0.
  int ReadError() {
    base::MutexLock lock(mutex_);
    char byte = 0;
    return recv(sockets_.front(), &byte, 1, 0) < 0 ? errno : 0;
  }
  void SendToLast(absl::string_view text) {
    base::MutexLock lock(mutex_);
    EXPECT_EQ(send(sockets_.back(), text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  }
  void CloseAll() {
    base::MutexLock lock(mutex_);
    for (const int socket : sockets_) close(socket);
    sockets_.clear();
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<int> sockets_ ABSL_GUARDED_BY(mutex_);
};

TEST(ConnectionAcceptorTest, AcceptedSocketsArePassedToTheCallback) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    AcceptedSockets sockets;
    auto acceptor = ConnectionAcceptor::Listen({.host = host}, kManyDescriptors);
    ASSERT_THAT(acceptor, test::IsOk());
    // Waits in the backlog.
    const HttpConnection early((*acceptor)->port());
    EXPECT_EQ(sockets.size(), 0u);
    (*acceptor)->Start([&sockets](int socket) { sockets.Add(socket); });
    const HttpConnection late((*acceptor)->port());
    sockets.WaitFor(2);
    (*acceptor)->Stop();
    EXPECT_EQ(sockets.size(), 2u);
  }
}

TEST(ConnectionAcceptorTest, DisconnectClosesOnlyTheConnectionOfThePeer) {
  AcceptedSockets sockets;
  const auto acceptor = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kManyDescriptors);
  ASSERT_THAT(acceptor, test::IsOk());
  (*acceptor)->Start([&sockets](int socket) { sockets.Add(socket); });
  HttpConnection closed((*acceptor)->port());
  sockets.WaitFor(1);
  HttpConnection open((*acceptor)->port());
  sockets.WaitFor(2);
  const std::string peer = sockets.FirstPeer();
  (*acceptor)->Disconnect(peer + "0");
  (*acceptor)->Disconnect(peer);
  (*acceptor)->Disconnect(peer);
  EXPECT_EQ(closed.ReadResponse(), "");
  sockets.SendToLast("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_THAT(open.ReadResponse(/*has_body=*/false), HasSubstr("204"));
}

TEST(ConnectionAcceptorTest, DisconnectDiscardsWhatThePeerHasSent) {
  AcceptedSockets sockets;
  const auto acceptor = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kManyDescriptors);
  ASSERT_THAT(acceptor, test::IsOk());
  (*acceptor)->Start([&sockets](int socket) { sockets.Add(socket); });
  HttpConnection client((*acceptor)->port());
  sockets.WaitFor(1);
  EXPECT_TRUE(client.Send("text"));
  sockets.WaitForBytes();
  (*acceptor)->Disconnect(sockets.FirstPeer());
  EXPECT_EQ(sockets.ReadError(), ECONNRESET);
  EXPECT_FALSE(client.Send("text"));
}

TEST(ConnectionAcceptorTest, DisconnectEndsTheWaitOfAPeerThatSends) {
  AcceptedSockets sockets;
  const auto acceptor = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kManyDescriptors);
  ASSERT_THAT(acceptor, test::IsOk());
  (*acceptor)->Start([&sockets](int socket) { sockets.Add(socket); });
  HttpConnection client((*acceptor)->port());
  sockets.WaitFor(1);
  const std::string peer = sockets.FirstPeer();
  std::thread sender([&client] {
    // More than all buffers hold.
    const std::string megabyte(1 << 20, 'x');
    bool is_open = true;
    for (int i = 0; is_open && i < 256; ++i) is_open = client.Send(megabyte);
    EXPECT_FALSE(is_open);
  });
  sockets.WaitForBytes();
  (*acceptor)->Disconnect(peer);
  sender.join();
}

TEST(ConnectionAcceptorTest, ErrorNamesTheAddressInUse) {
  const auto first = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kManyDescriptors);
  ASSERT_THAT(first, test::IsOk());
  const ListenAddress same = {.host = "127.0.0.1", .port = (*first)->port()};
  EXPECT_THAT(ConnectionAcceptor::Listen(same, kManyDescriptors),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("cannot listen on " + same.ToString() + ": Address already")));
}

TEST(ConnectionAcceptorTest, ConnectionsBeyondTheDescriptorLimitAreClosed) {
  constexpr int kDescriptors = 60;
  AcceptedSockets sockets;
  const auto acceptor = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kDescriptors);
  ASSERT_THAT(acceptor, test::IsOk());
  (*acceptor)->Start([&sockets](int socket) { sockets.Add(socket); });
  std::deque<std::unique_ptr<HttpConnection>> clients;
  const auto connect = [&] {
    clients.push_back(std::make_unique<HttpConnection>((*acceptor)->port()));
  };
  connect();
  sockets.WaitFor(1);
  // The sockets of the clients use descriptors of this process too.
  while (clients.size() < kDescriptors) connect();
  EXPECT_EQ(clients.back()->ReadResponse(), "") << "closed without a response";
  EXPECT_LT(sockets.size(), clients.size());
  sockets.CloseAll();
  clients.clear();
  const HttpConnection next((*acceptor)->port());
  sockets.WaitFor(1);
}

}  // namespace
}  // namespace callboard::server
