#include "libs/server/connection_acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <string>
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

constexpr int kPlenty = 1000;

// Keeps the connections it is given.
class Sockets {
 public:
  ~Sockets() { CloseAll(); }

  void Take(int socket) {
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
  // As gRPC names it.
  std::string PeerOfFirst() {
    base::MutexLock lock(mutex_);
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getpeername(sockets_.front(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return absl::StrCat("ipv4:127.0.0.1:", ntohs(address.sin_port));
  }
  void SayToLast(absl::string_view text) {
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

TEST(ConnectionAcceptorTest, WhoeverConnectsIsHandedOn) {
  for (const char* host : {"127.0.0.1", "localhost"}) {
    Sockets sockets;
    auto acceptor = ConnectionAcceptor::Listen({.host = host}, kPlenty);
    ASSERT_THAT(acceptor, test::IsOk());
    // Waits to be taken.
    const HttpConnection early((*acceptor)->port());
    EXPECT_EQ(sockets.size(), 0u);
    (*acceptor)->Start([&sockets](int socket) { sockets.Take(socket); });
    const HttpConnection late((*acceptor)->port());
    sockets.WaitFor(2);
    (*acceptor)->Stop();
    EXPECT_EQ(sockets.size(), 2u);
  }
}

TEST(ConnectionAcceptorTest, OnlyTheConnectionOfThatPeerIsDisconnected) {
  Sockets sockets;
  const auto acceptor = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kPlenty);
  ASSERT_THAT(acceptor, test::IsOk());
  (*acceptor)->Start([&sockets](int socket) { sockets.Take(socket); });
  HttpConnection closed((*acceptor)->port());
  sockets.WaitFor(1);
  HttpConnection open((*acceptor)->port());
  sockets.WaitFor(2);
  const std::string peer = sockets.PeerOfFirst();
  (*acceptor)->Disconnect(peer + "0");
  (*acceptor)->Disconnect(peer);
  (*acceptor)->Disconnect(peer);
  EXPECT_EQ(closed.ReadResponse(), "");
  sockets.SayToLast("HTTP/1.1 204 No Content\r\n\r\n");
  EXPECT_THAT(open.ReadResponse(/*has_body=*/false), HasSubstr("204"));
}

TEST(ConnectionAcceptorTest, AddressThatIsTakenIsNamed) {
  const auto first = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kPlenty);
  ASSERT_THAT(first, test::IsOk());
  const ListenAddress same = {.host = "127.0.0.1", .port = (*first)->port()};
  EXPECT_THAT(ConnectionAcceptor::Listen(same, kPlenty),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("cannot listen on " + same.ToString() + ": Address already")));
}

TEST(ConnectionAcceptorTest, DescriptorsAreKeptBackAndOthersAreTakenOnceSomeAreFree) {
  constexpr int kDescriptors = 60;
  Sockets sockets;
  const auto acceptor = ConnectionAcceptor::Listen({.host = "127.0.0.1"}, kDescriptors);
  ASSERT_THAT(acceptor, test::IsOk());
  (*acceptor)->Start([&sockets](int socket) { sockets.Take(socket); });
  std::deque<std::unique_ptr<HttpConnection>> clients;
  const auto connect = [&] {
    clients.push_back(std::make_unique<HttpConnection>((*acceptor)->port()));
  };
  connect();
  sockets.WaitFor(1);
  // Their sockets have numbers too, which are used up with these.
  while (clients.size() < kDescriptors) connect();
  EXPECT_EQ(clients.back()->ReadResponse(), "") << "closed at once";
  EXPECT_LT(sockets.size(), clients.size());
  sockets.CloseAll();
  clients.clear();
  const HttpConnection next((*acceptor)->port());
  sockets.WaitFor(1);
}

}  // namespace
}  // namespace callboard::server
