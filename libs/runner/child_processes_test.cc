#include "libs/runner/child_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>

#include "libs/base/check.h"

namespace callboard::runner {
namespace {

pid_t StartSleep(std::string variable) {
  std::string program = "/bin/sleep";
  std::string argument = "1000";
  char* const argv[] = {program.data(), argument.data(), nullptr};
  char* const environment[] = {variable.data(), nullptr};
  pid_t pid = 0;
  CHECK_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv, environment), 0);
  return pid;
}

int WaitForStatus(pid_t pid) {
  int status = 0;
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(ChildProcessesTest, ListsChildrenOfThisProcess) {
  const pid_t pid = StartSleep("A=1");
  EXPECT_THAT(ChildProcesses(), testing::Contains(pid));
  KillChild(pid);
  EXPECT_EQ(WTERMSIG(WaitForStatus(pid)), SIGKILL);
  EXPECT_THAT(ChildProcesses(), testing::Not(testing::Contains(pid)));
}

TEST(ChildProcessesTest, KillsOnlyProcessesWithTheVariable) {
  // Repeat, because the kernel lists a new process before its environment can be read.
  for (int i = 0; i < 50; ++i) {
    const pid_t other = StartSleep("MARK=ed/1/23");
    const pid_t marked = StartSleep("MARK=ed/1/2");
    KillProcessesWithVariable("MARK=ed/1/2");
    ASSERT_EQ(WTERMSIG(WaitForStatus(marked)), SIGKILL);
    kill(other, SIGTERM);
    ASSERT_EQ(WTERMSIG(WaitForStatus(other)), SIGTERM);
  }
}

}  // namespace
}  // namespace callboard::runner
