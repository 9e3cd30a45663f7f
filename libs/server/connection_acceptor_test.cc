#include "libs/server/connection_acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <vector>

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
