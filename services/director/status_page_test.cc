#include "services/director/start_director.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard {
namespace {

using ::testing::StartsWith;

TEST(StatusPageTest, HasTypeVersionAndQueue) {
  core::QueueStatus queue;
  queue.counts.pending = 3;
  EXPECT_THAT(StatusPage(queue),
              StartsWith(R"({"type":"view","interfaces":["statusable","observable","taskable"],)"
                         R"("version":"0.1.0","queue":{"depth":3,"max_size":50,)"));
}

}  // namespace
}  // namespace callboard
