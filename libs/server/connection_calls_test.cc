#include "libs/server/connection_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace callboard::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConnectionCallsTest : public testing::Test {
 protected:
  std::vector<std::string> closed_;
  ConnectionCalls calls_{{.open_max = 10, .taken_back_max = 2},
                         [this](const std::string& peer) { closed_.push_back(peer); }};
};

TEST_F(ConnectionCallsTest, OnlyTheConnectionThatHoldsTooManyIsClosed) {
  for (int i = 0; i < 10; ++i) {
    calls_.Begin("a");
    calls_.Begin("b");
  }
  EXPECT_THAT(closed_, IsEmpty());
  calls_.Begin("a");
  EXPECT_THAT(closed_, ElementsAre("a"));
}

TEST_F(ConnectionCallsTest, CallsThatHaveEndedAreNotHeld) {
  for (int i = 0; i < 100; ++i) {
    calls_.Begin("a");
    calls_.HasRequest("a", true);
    calls_.End("a");
  }
  EXPECT_THAT(closed_, IsEmpty());
}

TEST_F(ConnectionCallsTest, ConnectionWithMoreCallsTakenBackThanMadeIsClosed) {
  calls_.Begin("a");
  for (int i = 0; i < 5; ++i) {
    calls_.HasRequest("a", false);
    calls_.HasRequest("a", true);
  }
  EXPECT_THAT(closed_, IsEmpty()) << "as many were made";
  for (int i = 0; i < 2; ++i) calls_.HasRequest("a", false);
  EXPECT_THAT(closed_, IsEmpty());
  calls_.HasRequest("a", false);
  EXPECT_THAT(closed_, ElementsAre("a"));
}

}  // namespace
}  // namespace callboard::server
