#include "libs/http/http_server.h"

#include <gtest/gtest.h>

namespace callboard::http {
namespace {

TEST(LoopbackTest, OnlyLoopbackAddressesMatch) {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]"}) {
    EXPECT_TRUE(IsLoopbackHost(host)) << host;
  }
  for (const char* host : {"", "0.0.0.0", "::", "[::]", "10.0.0.1", "127.0.0.1.example.com",
                           "localhost.example.com", "128.0.0.1", "0127.0.0.1", "::ffff:10.0.0.1"}) {
    EXPECT_FALSE(IsLoopbackHost(host)) << host;
  }
}

}  // namespace
}  // namespace callboard::http
