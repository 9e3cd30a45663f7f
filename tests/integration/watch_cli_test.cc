// `callboard watch` in a pipe and on a terminal, with tasks and directors that come and go.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/integration/task_client.h"

extern char** environ;

namespace callboard {
namespace {

using test::Process;
using test::ProcessResult;
using test::RunningServer;
using test::RunToEnd;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::Optional;
using ::testing::SizeIs;
using ::testing::StartsWith;

// The sequences that hide and restore the cursor.
constexpr char kHidden[] = "\x1b[?25l\x1b[?7l";
constexpr char kRestored[] = "\x1b[?7h\x1b[?25h";

// A program on a separate terminal.
class Terminal {
 public:
  Terminal(const std::vector<std::string>& arguments, const winsize& window)
      : fd_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    CHECK(fd_ >= 0 && grantpt(fd_) == 0 && unlockpt(fd_) == 0);
    Resize(window);
    char name[64];
    CHECK_EQ(ptsname_r(fd_, name, sizeof(name)), 0);
    posix_spawnattr_t attributes;
    CHECK_EQ(posix_spawnattr_init(&attributes), 0);
    // The first terminal that a session leader opens becomes its controlling terminal, which
    // delivers Ctrl-C.
    CHECK_EQ(posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID), 0);
    posix_spawn_file_actions_t actions;
    CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
    CHECK_EQ(posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, name, O_RDWR, 0), 0);
    CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDOUT_FILENO), 0);
    CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO, STDERR_FILENO), 0);
    std::vector<char*> argv;
    for (const std::string& argument : arguments) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    CHECK_EQ(posix_spawn(&pid_, argv[0], &actions, &attributes, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  ~Terminal() {
    if (!has_ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(fd_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void Resize(const winsize& window) { CHECK_EQ(ioctl(fd_, TIOCSWINSZ, &window), 0); }
  void Type(const std::string& keys) {
    CHECK_EQ(write(fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Waits until the text appears after the last text that was found.
  void WaitFor(const std::string& text) {
    size_t found;
    while ((found = output_.find(text, searched_)) == std::string::npos) {
      CHECK(Read()) << "ended without '" << text << "':\n" << output_;
    }
    searched_ = found + text.size();
  }
  // Waits for the end; returns the exit code.
  int End() {
    while (Read()) {
    }
    int status = 0;
    CHECK_EQ(waitpid(pid_, &status, 0), pid_);
    has_ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  bool Read() {
    char chunk[4096];
    const ssize_t count = read(fd_, chunk, sizeof(chunk));
    if (count <= 0) return false;
    output_.append(chunk, static_cast<size_t>(count));
    return true;
  }

  int fd_ = -1;
  pid_t pid_ = -1;
  bool has_ended_ = false;
  std::string output_;
  size_t searched_ = 0;
};

// Returns the lines that contain a text.
std::vector<std::string> LinesWith(const std::string& text, const std::string& output) {
  std::vector<std::string> lines = absl::StrSplit(output, '\n');
  std::erase_if(lines, [&](const std::string& line) { return !absl::StrContains(line, text); });
  return lines;
}

class WatchCliTest : public testing::Test {
 protected:
  void StartDirector(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {absl::StrCat("--data_dir=", folder_.string())};
    if (director_.has_value()) {
      all.push_back(absl::StrCat("--grpc.listen=", director_->grpc_address()));
    }
    all.insert(all.end(), flags.begin(), flags.end());
    director_.emplace("services/director/callboard-director", all);
    client_.emplace(*director_);
  }
  void StopDirector(int signal) {
    director_->process().Signal(signal);
    ASSERT_TRUE(director_->process().WaitForExit(absl::Minutes(1)).has_value());
  }
  void StartAgent() {
    agent_.emplace("services/agent/callboard-agent",
                   std::vector<std::string>{
                       absl::StrCat("--director.address=", director_->grpc_address()),
                       "--agent.name=agent-1", "--runner.kind=shell", "--runner.allow_shell"});
  }
  std::vector<std::string> Watch(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment = {"TERM=xterm"}) {
    std::vector<std::string> command = {"/usr/bin/env"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {test::BuiltBinary("services/cli/callboard"), "watch",
                                   absl::StrCat("--director.address=", director_->grpc_address())});
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }

  const std::filesystem::path folder_ = test::NewFolder();
  std::optional<RunningServer> director_;
  std::optional<RunningServer> agent_;
  std::optional<test::TaskClient> client_;
};

TEST_F(WatchCliTest, EachChangeOfATaskIsALine) {
  StartDirector();
  const std::string id = client_->Submit("exit 7");
  Process watch(Watch({}));
  const std::string time = "[-0-9T:.]+Z  ";
  const std::string accepted = "  pending      -             -";
  EXPECT_THAT(watch.WaitForLine(id), MatchesRegex(time + id + accepted));
  StartAgent();
  for (const char* change : {"  dispatching  agent-1       1", "  working      agent-1       1",
                             "  failed       agent-1       1  EXEC_FAILED: exited with 7"}) {
    EXPECT_THAT(watch.WaitForLine(id + change), MatchesRegex(time + id + change));
  }
  const std::string next = client_->Submit("true");
  watch.WaitForLine(next + "  completed");
  EXPECT_THAT(LinesWith(next + accepted, watch.Output()), Contains(EndsWith(accepted)).Times(1))
      << "a submit is printed once";
}

TEST_F(WatchCliTest, NamedTasksDetermineTheExitCode) {
  StartDirector();
  StartAgent();
  const std::string good = client_->Submit("true");
  const std::string other = client_->Submit("echo");
  const std::string bad = client_->Submit("exit 7");
  const std::string cancelled = client_->Submit("sleep 1000");
  EXPECT_THAT(RunToEnd(Watch({good, other})).exit_code, Optional(0));
  const ProcessResult failed = RunToEnd(Watch({good, bad}));
  EXPECT_THAT(failed.exit_code, Optional(1));
  EXPECT_THAT(failed.output,
              HasSubstr(absl::StrCat("Error: 1 of 2 tasks did not complete: ", bad, " failed\n")));
  client_->Cancel(cancelled);
  EXPECT_THAT(RunToEnd(Watch({cancelled})).exit_code, Optional(1));
  EXPECT_THAT(RunToEnd(Watch({"queue-00000000000000000000000001"})).exit_code, Optional(4));
}

TEST_F(WatchCliTest, EachChangeIsAJsonDocumentOnItsOwnLine) {
  StartDirector();
  const std::string id = client_->Submit("true");
  Process watch(Watch({id, "-o", "json"}));
  watch.WaitForLine("\"event\":null");
  StartAgent();
  EXPECT_THAT(watch.WaitForExit(absl::Minutes(1)), Optional(0));
  std::vector<std::string> lines = absl::StrSplit(watch.Output(), '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, Each(AllOf(StartsWith("{\"task\":{"), EndsWith("}"))));
  EXPECT_THAT(lines.back(), HasSubstr("\"kind\":\"DONE\""));
}

TEST_F(WatchCliTest, WatchSurvivesADirectorRestart) {
  for (const int signal : {SIGKILL, SIGTERM}) {
    StartDirector();
    const std::string first = client_->Submit("first");
    const std::string second = client_->Submit("second");
    Process watch(Watch({first, second}));
    watch.WaitForLine(second);
    StopDirector(signal);
    watch.WaitForLine("callboard: lost the director at " + director_->grpc_address());
    StartDirector();
    client_->Cancel(first);
    watch.WaitForLine(absl::StrCat(first, "  cancelled"));
    client_->Cancel(second);
    watch.WaitForLine(absl::StrCat(second, "  cancelled"));
    EXPECT_THAT(watch.WaitForExit(absl::Minutes(1)), Optional(1));
    EXPECT_THAT(LinesWith("lost the director", watch.Output()), SizeIs(1));
    EXPECT_THAT(LinesWith(absl::StrCat(second, "  pending"), watch.Output()), SizeIs(1))
        << "unchanged tasks are not printed again";
  }
}

TEST_F(WatchCliTest, BrokenConnectionHidesNothing) {
  StartDirector();
  const std::string before = client_->Submit("before");
  test::TcpProxy proxy(director_->grpc_address());
  Process watch(Watch({absl::StrCat("--director.address=", proxy.address())}));
  watch.WaitForLine(before);
  proxy.Accept(false);
  proxy.Cut();
  watch.WaitForLine("callboard: lost the director at " + proxy.address());
  const std::string meanwhile = client_->Submit("meanwhile");
  client_->Cancel(meanwhile);
  proxy.Accept(true);
  EXPECT_THAT(watch.WaitForLine(meanwhile), HasSubstr("  pending  "));
  watch.WaitForLine(absl::StrCat(meanwhile, "  cancelled"));
}

TEST_F(WatchCliTest, UnreachableDirectorExitsWith5) {
  const ProcessResult ended = RunToEnd(
      {test::BuiltBinary("services/cli/callboard"), "watch", "--director.address=127.0.0.1:1"});
  EXPECT_THAT(ended.exit_code, Optional(5));
  EXPECT_THAT(ended.output, StartsWith("Error: no director answers at 127.0.0.1:1 "));
}

TEST_F(WatchCliTest, CtrlCEndsIt) {
  StartDirector();
  const std::string id = client_->Submit("true");
  Process watch(Watch({}));
  watch.WaitForLine(id);
  watch.Signal(SIGINT);
  EXPECT_THAT(watch.WaitForExit(absl::Minutes(1)), Optional(130));
}

TEST_F(WatchCliTest, TerminalShowsTheTasksAndIsRestored) {
  StartDirector();
  for (int i = 0; i < 9; ++i) client_->Submit(absl::StrCat("task ", i));
  Terminal terminal(Watch({}), {.ws_row = 10, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0});
  terminal.WaitFor(kHidden);
  terminal.WaitFor("queue  9 of 50 pending, 0 of 0 running, 0 waiting");
  terminal.WaitFor("and 3 more");
  // Redrawn in place, not below; completely redrawn in a window of another size.
  terminal.WaitFor("\x1b[9A");
  terminal.Resize({.ws_row = 20, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0});
  terminal.WaitFor("\x1b[2J\x1b[H");
  terminal.WaitFor("\"task 8\"");
  terminal.Type("\x03");
  EXPECT_EQ(terminal.End(), 130);
  const std::string last = terminal.output().substr(terminal.output().rfind(kHidden));
  EXPECT_THAT(last, HasSubstr(kRestored));
}

TEST_F(WatchCliTest, TerminalIsRestoredWhenTheTasksHaveEnded) {
  StartDirector();
  const std::string id = client_->Submit("true");
  Terminal terminal(Watch({id}), {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0});
  terminal.WaitFor("pending");
  StopDirector(SIGKILL);
  terminal.WaitFor("no director answers");
  StartDirector();
  client_->Cancel(id);
  EXPECT_EQ(terminal.End(), 1);
  const size_t restored = terminal.output().rfind(kRestored);
  ASSERT_NE(restored, std::string::npos);
  EXPECT_THAT(terminal.output().substr(0, restored), HasSubstr("\x1b[33mcancelled"));
  EXPECT_THAT(terminal.output().substr(restored),
              HasSubstr("Error: 1 of 1 tasks did not complete"));
}

TEST_F(WatchCliTest, ColorAndRedrawingNeedASuitableTerminal) {
  StartDirector();
  const std::string id = client_->Submit("true");
  client_->Cancel(id);
  const winsize window = {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
  Terminal plain(Watch({id}, {"TERM=xterm", "NO_COLOR=1"}), window);
  plain.End();
  EXPECT_THAT(plain.output(), AllOf(HasSubstr("\x1b[?25l"), Not(HasSubstr("\x1b[33m"))));
  for (const char* term : {"TERM=dumb", "TERM="}) {
    Terminal dumb(Watch({id}, {term}), window);
    dumb.End();
    EXPECT_THAT(dumb.output(), AllOf(HasSubstr(id), Not(HasSubstr("\x1b"))));
  }
}

}  // namespace
}  // namespace callboard
