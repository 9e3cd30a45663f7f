#include "libs/testing/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>

namespace callboard::test {
namespace {

using ::testing::Optional;

TEST(ProcessTest, ReportsExitCodeAndSignalExactly) {
  Process exits({"/bin/sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_THAT(exits.WaitForExit(absl::Minutes(1)), Optional(7));
  EXPECT_EQ(exits.Output(), "out\nerr\n");
  Process dies({"/bin/sh", "-c", "kill -9 $$"});
  EXPECT_THAT(dies.WaitForExit(absl::Minutes(1)), Optional(128 + SIGKILL));
}

TEST(ProcessTest, WaitForLineReturnsTheWholeLine) {
  Process process({"/bin/sh", "-c", "echo a; echo ready port=5; read line"});
  EXPECT_EQ(process.WaitForLine("ready"), "ready port=5");
  EXPECT_EQ(FieldOf("ready port=5 x=y", "port"), "5");
}

TEST(ProcessTest, WaitForLineOrEndReturnsNothingAtTheEnd) {
  Process process({"/bin/sh", "-c", "echo a; echo b"});
  EXPECT_THAT(process.WaitForLineOrEnd("b"), Optional(std::string("b")));
  EXPECT_EQ(process.WaitForLineOrEnd("b"), std::nullopt);
}

TEST(ProcessTest, UnreadOutputDoesNotStallTheProgram) {
  Process process({"/bin/sh", "-c", "head -c 1000000 /dev/zero; exit 3"});
  EXPECT_THAT(process.WaitForExit(absl::Minutes(1)), Optional(3));
  EXPECT_EQ(process.Output().size(), 1'000'000u);
}

TEST(ProcessTest, RunningProcessHasNoExitCode) {
  Process process({"/bin/sh", "-c", "trap '' TERM; echo up; while :; do :; done"});
  process.WaitForLine("up");
  process.Signal(SIGTERM);
  EXPECT_EQ(process.WaitForExit(absl::Milliseconds(1)), std::nullopt);
}

}  // namespace
}  // namespace callboard::test
