#include "libs/base/text.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

TEST(HostPortTest, AcceptsNamesAndAddressesWithAPort) {
  for (const char* address : {"10.0.0.7:7071", "[::1]:7071", "agent-1.local:1", "a_b:65535"}) {
    EXPECT_TRUE(IsHostPort(address)) << address;
  }
}

TEST(HostPortTest, RejectsAnythingElse) {
  for (const char* address : {"", "7071", ":7071", "host", "host:", "host:0", "host:65536",
                              "unix:/tmp/socket", "dns:///host:1", "::1:7071", "a b:1", "[]:1"}) {
    EXPECT_FALSE(IsHostPort(address)) << address;
  }
}

}  // namespace
}  // namespace callboard::base
