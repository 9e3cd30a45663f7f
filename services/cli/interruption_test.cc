#include "services/cli/interruption.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace callboard::cli {
namespace {

// Each in a process of its own: signals belong to the whole process.
void Interrupt() { kill(getpid(), SIGINT); }

TEST(InterruptionTest, SignalEndsTheCommandAtOnce) {
  EXPECT_EXIT(
      {
        Interruption interruption;
        Interrupt();
        pause();
      },
      testing::ExitedWithCode(130), "^$");
}

TEST(InterruptionTest, DeferredSignalIsAStopRequest) {
  EXPECT_EXIT(
      {
        Interruption interruption;
        const std::stop_token stop = interruption.Defer();
        Interrupt();
        while (!stop.stop_requested()) std::this_thread::yield();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(InterruptionTest, SecondSignalEndsTheCommandAtOnceAllTheSame) {
  EXPECT_EXIT(
      {
        Interruption interruption;
        const std::stop_token stop = interruption.Defer();
        Interrupt();
        while (!stop.stop_requested()) std::this_thread::yield();
        Interrupt();
        pause();
      },
      testing::ExitedWithCode(130), "^$");
}

}  // namespace
}  // namespace callboard::cli
