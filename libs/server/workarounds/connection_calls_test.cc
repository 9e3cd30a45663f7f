#include "libs/server/workarounds/connection_acceptor.h"

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
  ConnectionCalls calls_{{.open_max = 10, .reset_max = 2},
                         [this](const std::string& peer) { closed_.push_back(peer); }};
};

TEST_F(ConnectionCallsTest, ConnectionWithTooManyOpenCallsIsClosed) {
  for (int i = 0; i < 10; ++i) {
    calls_.StartCall("a");
    calls_.StartCall("b");
  }
  EXPECT_THAT(closed_, IsEmpty());
  calls_.StartCall("a");
  EXPECT_THAT(closed_, ElementsAre("a"));
}

TEST_F(ConnectionCallsTest, EndedCallsDoNotCount) {
  for (int i = 0; i < 100; ++i) {
    calls_.StartCall("a");
    calls_.RecordRequest("a", true);
    calls_.EndCall("a");
  }
  EXPECT_THAT(closed_, IsEmpty());
}

TEST_F(ConnectionCallsTest, ConnectionWithMoreResetThanOtherCallsIsClosed) {
  calls_.StartCall("a");
  for (int i = 0; i < 5; ++i) {
    calls_.RecordRequest("a", false);
    calls_.RecordRequest("a", true);
  }
  EXPECT_THAT(closed_, IsEmpty()) << "as many calls had a request";
  for (int i = 0; i < 2; ++i) calls_.RecordRequest("a", false);
  EXPECT_THAT(closed_, IsEmpty());
  calls_.RecordRequest("a", false);
  EXPECT_THAT(closed_, ElementsAre("a"));
}

}  // namespace
}  // namespace callboard::server
