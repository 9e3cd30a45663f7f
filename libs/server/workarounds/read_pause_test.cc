#include "libs/server/workarounds/read_pause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/http_client.h"

namespace callboard::server {
namespace {

// A connection whose server end is read after events only, as gRPC does.
class ReadPauseTest : public testing::Test {
 protected:
  ReadPauseTest() : listener_(socket(AF_INET, SOCK_STREAM, 0)), events_(epoll_create1(0)) {
    EXPECT_EQ(listen(listener_, 1), 0);
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client_ = std::make_unique<test::HttpConnection>(ntohs(address.sin_port));
    server_ = accept(listener_, nullptr, nullptr);
    EXPECT_GE(server_, 0);
    epoll_event event = {.events = EPOLLIN | EPOLLET, .data = {}};
    EXPECT_EQ(epoll_ctl(events_, EPOLL_CTL_ADD, server_, &event), 0);
  }
  ~ReadPauseTest() override {
    for (const int descriptor : {listener_, events_, server_}) close(descriptor);
  }

  // Sends a byte to the server end and takes the event of its arrival.
  void SendByte() {
    EXPECT_TRUE(client_->Send("x"));
    epoll_event event;
    EXPECT_EQ(epoll_wait(events_, &event, 1, /*timeout=*/-1), 1);
  }
  bool HasEvent() {
    epoll_event event;
    return epoll_wait(events_, &event, 1, /*timeout=*/0) == 1;
  }
  static void AddUnserved(ReadPause& pause, int calls) {
    for (int i = 0; i < calls; ++i) pause.AddUnserved();
  }
  static void RemoveUnserved(ReadPause& pause, int calls) {
    for (int i = 0; i < calls; ++i) pause.RemoveUnserved();
  }

  test::FakeClock clock_;
  std::function<void()> timer_;
  ReadPause pause_{
      {.unserved_max = 10, .pause_max = absl::Seconds(1)},
      clock_,
      [this](absl::Duration, std::function<void()> then) { timer_ = std::move(then); }};
  const int listener_;
  const int events_;
  std::unique_ptr<test::HttpConnection> client_;
  int server_ = -1;
};

TEST_F(ReadPauseTest, HeldSocketGetsAnEventWhenHalfOfTheCallsAreGone) {
  pause_.AddSocket(server_);
  SendByte();
  AddUnserved(pause_, 10);
  EXPECT_FALSE(pause_.Holds(server_));
  AddUnserved(pause_, 1);
  EXPECT_TRUE(pause_.Holds(server_));
  EXPECT_FALSE(pause_.Holds(server_ + 1000)) << "it was not accepted";
  RemoveUnserved(pause_, 5);
  EXPECT_TRUE(pause_.Holds(server_));
  EXPECT_FALSE(HasEvent());
  RemoveUnserved(pause_, 1);
  EXPECT_FALSE(pause_.Holds(server_));
  EXPECT_TRUE(HasEvent());
}

TEST_F(ReadPauseTest, CallsThatDoNotEndRaiseTheLimit) {
  pause_.AddSocket(server_);
  SendByte();
  AddUnserved(pause_, 11);
  EXPECT_TRUE(pause_.Holds(server_));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(pause_.Holds(server_));
  EXPECT_TRUE(HasEvent());
  AddUnserved(pause_, 10);
  EXPECT_FALSE(pause_.Holds(server_));
  AddUnserved(pause_, 1);
  EXPECT_TRUE(pause_.Holds(server_));
  RemoveUnserved(pause_, 22);
  AddUnserved(pause_, 11);
  EXPECT_TRUE(pause_.Holds(server_));
}

TEST_F(ReadPauseTest, PauseEndsByItselfIfNoCallEndsAndNoBytesArrive) {
  pause_.AddSocket(server_);
  SendByte();
  AddUnserved(pause_, 11);
  EXPECT_TRUE(pause_.Holds(server_));
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(HasEvent());
  timer_();
  EXPECT_TRUE(HasEvent());
  EXPECT_FALSE(pause_.Holds(server_));
}

TEST_F(ReadPauseTest, LaterSocketWithTheSameDescriptorIsNotHeld) {
  pause_.AddSocket(server_);
  AddUnserved(pause_, 11);
  EXPECT_TRUE(pause_.Holds(server_));
  const int other = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(dup2(other, server_), server_);
  EXPECT_FALSE(pause_.Holds(server_));
  close(other);
}

TEST_F(ReadPauseTest, TimerOfAnEarlierPauseDoesNotEndTheNextOne) {
  pause_.AddSocket(server_);
  AddUnserved(pause_, 11);
  const std::function<void()> earlier = timer_;
  RemoveUnserved(pause_, 11);
  clock_.Advance(absl::Seconds(1));
  AddUnserved(pause_, 11);
  earlier();
  EXPECT_TRUE(pause_.Holds(server_));
}

TEST_F(ReadPauseTest, ReadingAPausedConnectionReturnsNoBytes) {
  ReadPause& pause = ReadPause::OfProcess();
  pause.AddSocket(server_);
  SendByte();
  char byte = 0;
  iovec buffer = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  // One more than the limit.
  AddUnserved(pause, 513);
  EXPECT_EQ(recvmsg(server_, &message, 0), -1);
  EXPECT_EQ(errno, EAGAIN);
  RemoveUnserved(pause, 513);
  EXPECT_EQ(recvmsg(server_, &message, 0), 1);
}

}  // namespace
}  // namespace callboard::server
