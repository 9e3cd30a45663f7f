#include "services/cli/director_client.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace callboard::cli {
namespace {

// Each test runs in a child process (EXPECT_EXIT): signals affect the whole process.
void Interrupt() { kill(getpid(), SIGINT); }

TEST(InterruptHandlerTest, SignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        InterruptHandler interrupts;
        Interrupt();
        pause();
      },
      testing::ExitedWithCode(130), "^$");
}

TEST(InterruptHandlerTest, DeferredSignalRequestsAStop) {
  EXPECT_EXIT(
      {
        InterruptHandler interrupts;
        const std::stop_token stop = interrupts.Defer();
        Interrupt();
        while (!stop.stop_requested()) std::this_thread::yield();
        _exit(42);
      },
      testing::ExitedWithCode(42), "^$");
}

TEST(InterruptHandlerTest, SecondDeferredSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        InterruptHandler interrupts;
        const std::stop_token stop = interrupts.Defer();
        Interrupt();
        while (!stop.stop_requested()) std::this_thread::yield();
        Interrupt();
        pause();
      },
      testing::ExitedWithCode(130), "^$");
}

}  // namespace
}  // namespace callboard::cli
