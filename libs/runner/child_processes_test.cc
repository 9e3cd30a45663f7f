#include "libs/runner/child_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "libs/base/check.h"

namespace callboard::runner {
namespace {

int WaitForExit(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

// Spawns a shell script with `flags` and returns its wait status.
int RunScript(const std::string& script, int flags = 0) {
  pid_t pid = 0;
  EXPECT_EQ(Spawn({.program = "sh",
                   .argv = {"sh", "-c", script},
                   .environment = {"PATH=/usr/bin:/bin"},
                   .flags = flags},
                  pid),
            0);
  return WaitForExit(pid);
}

TEST(SpawnTest, ProgramGetsArgumentsAndEnvironment) {
  pid_t pid = 0;
  ASSERT_EQ(
      Spawn({.program = "/bin/sh", .argv = {"sh", "-c", "exit $CODE"}, .environment = {"CODE=7"}},
            pid),
      0);
  EXPECT_EQ(WEXITSTATUS(WaitForExit(pid)), 7);
}

TEST(SpawnTest, BlockedAndIgnoredSignalsAreReset) {
  const auto handler = signal(SIGINT, SIG_IGN);
  sigset_t blocked;
  sigemptyset(&blocked);
  for (const int number : {SIGTERM, SIGUSR1}) sigaddset(&blocked, number);
  sigset_t before;
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  EXPECT_EQ(WTERMSIG(RunScript("kill -INT $$; exit 1")), SIGINT);
  EXPECT_EQ(WTERMSIG(RunScript("kill -TERM $$; exit 1")), SIGTERM);
  EXPECT_EQ(WTERMSIG(RunScript("kill -USR1 $$; exit 1")), SIGUSR1);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  signal(SIGINT, handler);
}

TEST(SpawnTest, FlagsStartANewProcessGroupOrSession) {
  const std::string is_leader = "set -- $(cat /proc/$$/stat); [ $5 = $$ ]";
  EXPECT_NE(WEXITSTATUS(RunScript(is_leader)), 0);
  EXPECT_EQ(WEXITSTATUS(RunScript(is_leader, POSIX_SPAWN_SETPGROUP)), 0);
  EXPECT_EQ(WEXITSTATUS(RunScript(is_leader, POSIX_SPAWN_SETSID)), 0);
}

TEST(SpawnTest, MissingProgramIsAnError) {
  pid_t pid = 0;
  EXPECT_EQ(Spawn({.program = "/no/such/program", .argv = {"x"}, .environment = {}}, pid), ENOENT);
}

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
