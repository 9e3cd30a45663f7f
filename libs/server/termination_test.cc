#include "libs/server/program.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace callboard::server {
namespace {

// Each test runs in a process of its own, because signals apply to the whole process.
void RaiseAndWait(int signals) {
  Termination termination;
  for (int i = 0; i < signals; ++i) {
    kill(getpid(), SIGTERM);
    termination.WaitForSignal();
  }
  // The second signal ends the process from another thread, while this one waits here.
  if (signals > 1) pause();
}

TEST(TerminationTest, FirstSignalEndsTheWaitOnly) {
  EXPECT_EXIT(
      {
        RaiseAndWait(1);
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, SecondSignalEndsTheProcess) {
  EXPECT_EXIT(RaiseAndWait(2), testing::ExitedWithCode(1), "^$");
}

TEST(TerminationTest, RequestsEndTheWaitOnly) {
  EXPECT_EXIT(
      {
        Termination termination;
        termination.RequestShutdown();
        termination.RequestShutdown();
        termination.WaitForSignal();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, RequestAfterASignalDoesNotEndTheProcess) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGTERM);
        termination.WaitForSignal();
        termination.RequestShutdown();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupWithoutAHandlerIsATerminationSignal) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGHUP);
        termination.WaitForSignal();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupRunsTheReloadHandler) {
  EXPECT_EXIT(
      {
        Termination termination;
        termination.SetReloadHandler([] { _exit(42); });
        kill(getpid(), SIGHUP);
        termination.WaitForSignal();
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupDuringStartRunsTheHandlerOnceItIsSet) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGHUP);
        sigset_t waiting;
        do {
          sigpending(&waiting);
        } while (sigismember(&waiting, SIGHUP) != 0);
        termination.SetReloadHandler([] { _exit(42); });
        termination.WaitForSignal();
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupDuringShutdownDoesNotEndTheProcess) {
  EXPECT_EXIT(
      {
        {
          Termination termination;
          kill(getpid(), SIGTERM);
          termination.WaitForSignal();
          kill(getpid(), SIGHUP);
          sigset_t waiting;
          do {
            sigpending(&waiting);
          } while (sigismember(&waiting, SIGHUP) != 0);
        }
        // The handling of the hangup has ended.
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, IgnoredHangupStaysIgnored) {
  EXPECT_EXIT(
      {
        signal(SIGHUP, SIG_IGN);
        Termination termination;
        kill(getpid(), SIGHUP);
        kill(getpid(), SIGTERM);
        termination.WaitForSignal();
        // A second signal would have ended it.
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, DestructorNeedsNoSignal) {
  EXPECT_EXIT(
      {
        { Termination termination; }
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

}  // namespace
}  // namespace callboard::server
