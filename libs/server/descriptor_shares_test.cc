#include "libs/server/grpc_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace callboard::server {
namespace {

TEST(DescriptorSharesTest, SomeAreReservedForProbesAndForTheStore) {
  const DescriptorShares shares = ShareDescriptors();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(limit.rlim_cur, limit.rlim_max) << "the limit is raised to the maximum";
  EXPECT_GT(shares.grpc, 0);
  EXPECT_GT(shares.http, shares.grpc);
  EXPECT_GT(limit.rlim_cur, static_cast<rlim_t>(shares.http));
}

}  // namespace
}  // namespace callboard::server
