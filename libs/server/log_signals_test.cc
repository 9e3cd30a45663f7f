#include "libs/server/log_signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/server/termination.h"

namespace callboard::server {
namespace {

// The log as a pipe, of a process that is made for one test: signals belong to the whole process.
class PipedLog {
 public:
  PipedLog() {
    CHECK_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    CHECK_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    base::StartLogging({.level = base::LogLevel::kInfo});
  }

  // Whether the next line, which is waited for, ends so.
  bool Says(const std::string& end) {
    std::string line;
    for (char c = 0; read(ends_[0], &c, 1) == 1 && c != '\n';) line += c;
    return absl::EndsWith(line, end);
  }

 private:
  std::array<int, 2> ends_;
};

// Ends the process so that the test knows what `body` says.
void EndWith(const std::function<bool(PipedLog&)>& body) {
  PipedLog log;
  _exit(body(log) ? 42 : 1);
}

TEST(LogSignalsTest, OneMakesTheLogMoreDetailedAndTheOtherLess) {
  const auto body = [](PipedLog& log) {
    const LogSignals signals;
    kill(getpid(), SIGUSR1);
    if (!log.Says(" log=level level=debug")) return false;
    kill(getpid(), SIGUSR2);
    if (!log.Says(" log=level level=info")) return false;
    kill(getpid(), SIGUSR2);
    return log.Says(" log=level level=warning");
  };
  EXPECT_EXIT(EndWith(body), testing::ExitedWithCode(42), "");
}

TEST(LogSignalsTest, ProgramThatWaitsForItsEndGoesOnWaiting) {
  const auto body = [](PipedLog& log) {
    const LogSignals signals;
    Termination termination;
    for (const char* level : {"debug", "debug", "debug"}) {
      kill(getpid(), SIGUSR1);
      if (!log.Says(level)) return false;
    }
    kill(getpid(), SIGTERM);
    termination.WaitForSignal();
    return true;
  };
  EXPECT_EXIT(EndWith(body), testing::ExitedWithCode(42), "");
}

TEST(LogSignalsTest, SignalsThatWereIgnoredBeforeStayIgnored) {
  const auto both = [](PipedLog& log) {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    const LogSignals signals;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    base::LogInfo("test", "end");
    return log.Says(" test=end");
  };
  EXPECT_EXIT(EndWith(both), testing::ExitedWithCode(42), "");
  const auto one = [](PipedLog& log) {
    signal(SIGUSR1, SIG_IGN);
    const LogSignals signals;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    return log.Says(" log=level level=warning");
  };
  EXPECT_EXIT(EndWith(one), testing::ExitedWithCode(42), "");
}

TEST(LogSignalsTest, NoOtherSignalIsBlockedHere) {
  const auto body = [](PipedLog&) {
    const LogSignals signals;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    for (int number = 1; number < SIGRTMIN; ++number) {
      const bool is_own = number == SIGUSR1 || number == SIGUSR2;
      if ((sigismember(&blocked, number) == 1) != is_own) return false;
    }
    return true;
  };
  EXPECT_EXIT(EndWith(body), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace callboard::server
