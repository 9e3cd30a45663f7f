#include "libs/server/termination.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

namespace callboard::server {
namespace {

// Each in a process of its own: signals belong to the whole process.
void RaiseAndWait(int signals) {
  Termination termination;
  for (int i = 0; i < signals; ++i) {
    kill(getpid(), SIGTERM);
    termination.WaitForSignal();
  }
  // A second signal ends the process from another thread, here.
  if (signals > 1) pause();
}

TEST(TerminationTest, FirstSignalIsWaitedForAndEndsNothing) {
  EXPECT_EXIT(
      {
        RaiseAndWait(1);
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, SecondSignalEndsTheProcessAtOnce) {
  EXPECT_EXIT(RaiseAndWait(2), testing::ExitedWithCode(1), "^$");
}

TEST(TerminationTest, RequestsAreWaitedForAndEndNothing) {
  EXPECT_EXIT(
      {
        Termination termination;
        termination.Request();
        termination.Request();
        termination.WaitForSignal();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, RequestAfterASignalEndsNothing) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGTERM);
        termination.WaitForSignal();
        termination.Request();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupIsASignalAsTheOthers) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGHUP);
        termination.WaitForSignal();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupReloadsWhereThereIsSomethingToReload) {
  EXPECT_EXIT(
      {
        Termination termination;
        termination.OnHangup([] { _exit(42); });
        kill(getpid(), SIGHUP);
        termination.WaitForSignal();
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupOfAProgramThatStartsReloadsOnceItHas) {
  EXPECT_EXIT(
      {
        Termination termination;
        kill(getpid(), SIGHUP);
        sigset_t waiting;
        do {
          sigpending(&waiting);
        } while (sigismember(&waiting, SIGHUP) != 0);
        termination.OnHangup([] { _exit(42); });
        termination.WaitForSignal();
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupOfAProgramThatEndsEndsItNoSooner) {
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
        // Whatever it does about it is done.
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(TerminationTest, HangupThatWasIgnoredBeforeStaysIgnored) {
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

TEST(TerminationTest, EndsQuietlyWithoutASignal) {
  EXPECT_EXIT(
      {
        { Termination termination; }
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

}  // namespace
}  // namespace callboard::server
