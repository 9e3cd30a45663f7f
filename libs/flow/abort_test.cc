#include "libs/flow/limits.h"

#include <gtest/gtest.h>

#include <stop_token>

namespace callboard::flow {
namespace {

TEST(AbortTest, ReasonIdentifiesAbortErrors) {
  EXPECT_TRUE(IsAbortError(AbortError()));
  EXPECT_TRUE(IsAbortError(AbortError("the operator pressed Ctrl-C")));
}

TEST(AbortTest, OtherErrorsAreFailures) {
  EXPECT_FALSE(IsAbortError(absl::OkStatus()));
  EXPECT_FALSE(IsAbortError(absl::CancelledError("a peer went away")));
  EXPECT_FALSE(IsAbortError(absl::AbortedError("lost the race")));
}

TEST(AbortTest, CheckFailsAfterTheStopRequest) {
  std::stop_source stop;
  EXPECT_TRUE(CheckNotAborted(stop.get_token()).ok());
  stop.request_stop();
  EXPECT_TRUE(IsAbortError(CheckNotAborted(stop.get_token(), "stopped")));
  EXPECT_EQ(CheckNotAborted(stop.get_token(), "stopped").message(), "stopped");
}

TEST(AbortTest, TokenWithoutASourceNeverAborts) {
  EXPECT_TRUE(CheckNotAborted(std::stop_token()).ok());
}

}  // namespace
}  // namespace callboard::flow
