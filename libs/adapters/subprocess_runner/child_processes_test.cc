#include "libs/adapters/subprocess_runner/child_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>

#include "libs/base/check.h"

namespace callboard::adapters {
namespace {

pid_t Sleeper(std::string variable) {
  std::string program = "/bin/sleep";
  std::string argument = "1000";
  char* const argv[] = {program.data(), argument.data(), nullptr};
  char* const environment[] = {variable.data(), nullptr};
  pid_t pid = 0;
  CHECK_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environment), 0);
  return pid;
}

int StatusOf(pid_t pid) {
  int status = 0;
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(ChildProcessesTest, AreThere) {
  const pid_t pid = Sleeper("A=1");
  EXPECT_THAT(ChildProcesses(), testing::Contains(pid));
  KillChild(pid);
  EXPECT_EQ(WTERMSIG(StatusOf(pid)), SIGKILL);
  EXPECT_THAT(ChildProcesses(), testing::Not(testing::Contains(pid)));
}

TEST(ChildProcessesTest, MarkedOnesAreKilledAndNoOthers) {
  // Often, because the kernel shows a new process before its environment.
  for (int i = 0; i < 50; ++i) {
    const pid_t other = Sleeper("MARK=ed/1/23");
    const pid_t marked = Sleeper("MARK=ed/1/2");
    KillMarkedProcesses("MARK=ed/1/2");
    ASSERT_EQ(WTERMSIG(StatusOf(marked)), SIGKILL);
    kill(other, SIGTERM);
    ASSERT_EQ(WTERMSIG(StatusOf(other)), SIGTERM);
  }
}

}  // namespace
}  // namespace callboard::adapters
