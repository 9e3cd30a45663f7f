#include "libs/server/program.h"

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

namespace callboard::server {
namespace {

// Redirects the log of the process to a pipe. Each test uses it in a process of its own, because
// signals apply to the whole process.
class PipedLog {
 public:
  PipedLog() {
    CHECK_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    CHECK_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    base::StartLogging({.level = base::LogLevel::kInfo});
  }

  // Waits for the next line and returns whether it ends with `end`.
  bool NextLineEndsWith(const std::string& end) {
    std::string line;
    for (char c = 0; read(ends_[0], &c, 1) == 1 && c != '\n';) line += c;
    return absl::EndsWith(line, end);
  }

 private:
  std::array<int, 2> ends_;
};

// Runs `body` and exits with code 42 if it returns true.
void ExitWith(const std::function<bool(PipedLog&)>& body) {
  PipedLog log;
  _exit(body(log) ? 42 : 1);
}

TEST(LogSignalsTest, SignalsRaiseAndLowerTheLogLevel) {
  const auto body = [](PipedLog& log) {
    const LogSignals signals;
    kill(getpid(), SIGUSR1);
    if (!log.NextLineEndsWith(" log=level level=debug")) return false;
    kill(getpid(), SIGUSR2);
    if (!log.NextLineEndsWith(" log=level level=info")) return false;
    kill(getpid(), SIGUSR2);
    return log.NextLineEndsWith(" log=level level=warning");
  };
  EXPECT_EXIT(ExitWith(body), testing::ExitedWithCode(42), "");
}

TEST(LogSignalsTest, LogSignalsDoNotEndAWaitingProgram) {
  const auto body = [](PipedLog& log) {
    const LogSignals signals;
    Termination termination;
    for (const char* level : {"debug", "debug", "debug"}) {
      kill(getpid(), SIGUSR1);
      if (!log.NextLineEndsWith(level)) return false;
    }
    kill(getpid(), SIGTERM);
    termination.WaitForSignal();
    return true;
  };
  EXPECT_EXIT(ExitWith(body), testing::ExitedWithCode(42), "");
}

TEST(LogSignalsTest, IgnoredSignalsStayIgnored) {
  const auto both = [](PipedLog& log) {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    const LogSignals signals;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    base::LogInfo("test", "end");
    return log.NextLineEndsWith(" test=end");
  };
  EXPECT_EXIT(ExitWith(both), testing::ExitedWithCode(42), "");
  const auto one = [](PipedLog& log) {
    signal(SIGUSR1, SIG_IGN);
    const LogSignals signals;
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGUSR2);
    return log.NextLineEndsWith(" log=level level=warning");
  };
  EXPECT_EXIT(ExitWith(one), testing::ExitedWithCode(42), "");
}

TEST(LogSignalsTest, OnlyTheLogSignalsAreBlocked) {
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
  EXPECT_EXIT(ExitWith(body), testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace callboard::server
