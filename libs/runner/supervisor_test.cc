// Ending of tasks: processes that resist, and processes whose supervisor, launcher or agent died.
#include "libs/runner/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/runner/child_processes.h"
#include "libs/runner/launcher.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/shell_runs.h"
#include "libs/testing/status_matchers.h"

#ifdef __SANITIZE_ADDRESS__
// Limits the freed memory that the address sanitizer retains, which would count as growth.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=4"; }
#endif

namespace callboard::test {
namespace {

namespace fs = std::filesystem;

using End = core::RunResult::End;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Returns a script that starts processes that are hard to kill, and appends the kStubbornProcesses
// process ids of all of them and of its shell to the file `pids`. Then it runs `last`.
constexpr size_t kStubbornProcesses = 5;
std::string StubbornScript(const fs::path& pids, const std::string& last) {
  return absl::StrCat("trap '' TERM HUP INT\n", "pids=", pids.string(),
                      "\n"
                      "sleep 1000 & echo $! >>$pids\n"
                      // A process in another session whose parent has ended.
                      "(setsid sh -c 'echo $$ >>'$pids'; exec sleep 1000' >/dev/null 2>&1 &)\n"
                      // The same, with a child and without an environment.
                      "(setsid env -i sh -c 'sleep 1000 & echo $! >>'$pids'; echo $$ >>'$pids'; "
                      "wait' >/dev/null 2>&1 &)\n"
                      "echo $$ >>$pids\n",
                      last);
}

// Limit for the growth of this process during a test.
constexpr uint64_t kGrownKilobytesMax = 32 * 1024;

uint64_t ResidentKilobytes() { return StatusOf(getpid(), "VmRSS"); }

void ExpectGone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    EXPECT_FALSE(IsAlive(pid)) << pid << " " << FileText(absl::StrCat("/proc/", pid, "/cmdline"));
  }
}

TEST(SupervisorTest, StopKillsProcessesThatIgnoreSignals) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(
      StubbornScript(pids, "yes & yes >&2 & echo $! >>$pids; wait; yes"), absl::Milliseconds(300));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  const uint64_t before = ResidentKilobytes();
  const absl::Duration stopped_at = shell.clock().MonotonicNow();
  shell.runner().Stop(run);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_LT(shell.clock().MonotonicNow() - stopped_at, absl::Milliseconds(300) + absl::Seconds(5));
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.signal, "SIGKILL");
  ExpectGone(processes);
  EXPECT_LT(ResidentKilobytes(), before + kGrownKilobytesMax);
}

TEST(SupervisorTest, ProcessIdOfTheTaskIsReported) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo $$");
  EXPECT_EQ(absl::StrCat(shell.runs().WaitForPid(run), "\n"), shell.runs().WaitForEnd(run).result);
}

TEST(SupervisorTest, StopKillsProcessesThatKeepForking) {
  ShellRuns shell;
  // Each process starts the next one and ends immediately.
  const core::FenceToken run =
      shell.Start("trap '' TERM; comet() { comet & }; (comet); echo up; while :; do wait; done",
                  absl::Milliseconds(100));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  const core::FenceToken leaves = shell.Start("comet() { comet & }; comet; exit 6");
  EXPECT_EQ(shell.runs().WaitForEnd(leaves).exit_code, 6);
}

TEST(SupervisorTest, OutputFloodDoesNotGrowMemory) {
  ShellRuns shell;
  const uint64_t before = ResidentKilobytes();
  const core::FenceToken run = shell.Start("head -c 1000000000 /dev/zero; echo end");
  EXPECT_TRUE(shell.runs().WaitForEnd(run).result.ends_with("end\n"));
  EXPECT_LT(ResidentKilobytes(), before + kGrownKilobytesMax);
}

TEST(SupervisorTest, TaskGetsTheGracePeriodToEnd) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start(
      "trap 'echo cleaned >$CALLBOARD_RESULT_FILE; exit 3' TERM; echo up; while :; do sleep 0.01; "
      "done");
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Stop(run);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.result, "cleaned\n");
}

TEST(SupervisorTest, SuspendedProcessReceivesTheStop) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo up; kill -STOP $$");
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
}

TEST(SupervisorTest, NoProcessOutlivesTheTask) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(
      StubbornScript(pids, absl::StrCat("while [ $(wc -l <$pids) -lt ", kStubbornProcesses,
                                        " ]; do sleep 0.01; done; exit 4")));
  EXPECT_EQ(shell.runs().WaitForEnd(run).exit_code, 4);
  ExpectGone(WaitForPids(pids, kStubbornProcesses));
}

TEST(SupervisorTest, TaskThatTakesTooLongIsTimedOut) {
  ShellRuns shell;
  core::RunSpec spec = SpecOf("exec sleep 1000");
  spec.timeout = absl::Milliseconds(50);
  const core::RunResult result = shell.RunToEnd(spec);
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_EQ(result.signal, "SIGTERM");
}

TEST(SupervisorTest, TaskIsStoppedAtItsFence) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start(SpecOf("exec sleep 1000"), absl::Seconds(10), absl::Milliseconds(50));
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_THAT(result.error, HasSubstr("fence"));
}

TEST(SupervisorTest, FenceInThePastLeavesNoGracePeriod) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start("trap '' TERM; echo up; while :; do sleep 1000; done", absl::Seconds(1000));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().MoveFence(run, shell.clock().MonotonicNow() - absl::Seconds(1001));
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.signal, "SIGKILL");
}

TEST(SupervisorTest, TaskIsNotStartedAfterItsFence) {
  ShellRuns shell;
  const fs::path file = shell.data_dir() / "ran";
  const core::FenceToken run =
      shell.Start(SpecOf("touch " + file.string()), absl::Seconds(1), absl::Seconds(-1));
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
}

TEST(SupervisorTest, FenceCanMoveBothWays) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start(SpecOf("exec sleep 1000"), absl::Seconds(10), absl::Milliseconds(500));
  shell.runner().MoveFence(run, absl::InfiniteDuration());
  const core::FenceToken other =
      shell.Start(SpecOf("exec sleep 1000"), absl::Seconds(10), absl::Milliseconds(600));
  EXPECT_EQ(shell.runs().WaitForEnd(other).end, End::kCancelled);
  EXPECT_EQ(shell.runs().ends(run), 0);
  shell.runner().MoveFence(run, shell.clock().MonotonicNow());
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
}

TEST(SupervisorTest, SupervisorDeathIsReportedAfterItsProcessesAreGone) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(StubbornScript(pids, "echo $PPID supervises; wait"));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "supervises\n"));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses);
  int supervisor = 0;
  ASSERT_TRUE(absl::SimpleAtoi(shell.runs().text(run).substr(0, shell.runs().text(run).find(' ')),
                               &supervisor));
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kFailed);
  EXPECT_THAT(result.error, HasSubstr("supervisor"));
  ExpectGone(processes);
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "work"));
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
}

TEST(SupervisorTest, RunWithoutFreeDescriptorsIsNotStartedAndLeaksNone) {
  ShellRuns shell;
  const pid_t launcher = runner::ChildProcesses().front();
  rlimit files = {};
  ASSERT_EQ(prlimit(launcher, RLIMIT_NOFILE, nullptr, &files), 0);
  const auto run_with = [&](rlim_t most) {
    const rlimit limit = {most, files.rlim_max};
    EXPECT_EQ(prlimit(launcher, RLIMIT_NOFILE, &limit, nullptr), 0);
    return shell.RunToEnd("exit 0");
  };
  // The launcher has six descriptors open and receives four for the run. With a limit of ten, the
  // supervisor has one too few.
  for (const rlim_t most : {6, 7, 8, 9, 10}) {
    const core::RunResult result = run_with(most);
    EXPECT_EQ(result.end, End::kNotStarted) << most << " " << result.error;
  }
  EXPECT_THAT(run_with(9).error, HasSubstr("no descriptor left"));
  EXPECT_EQ(run_with(12), (core::RunResult{.end = End::kCompleted, .exit_code = 0}));
}

TEST(SupervisorTest, RunIsNotStartedWhenTheLauncherDiesBeforeForking) {
  ShellRuns shell;
  const pid_t launcher = runner::ChildProcesses().front();
  ASSERT_EQ(kill(launcher, SIGSTOP), 0);
  const core::FenceToken run = shell.Start("exit 0");
  // The loop has sent the first run when it reports the end of this impossible one.
  core::RunSpec impossible = SpecOf("exit 0");
  impossible.project = core::Project{.name = "", .path = "nowhere"};
  ASSERT_EQ(shell.RunToEnd(impossible).end, End::kNotStarted);
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kNotStarted);
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
}

TEST(SupervisorTest, RunsContinueWhenTheirLauncherDies) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo $PPID supervises; exec sleep 1000");
  const core::FenceToken other = shell.Start("echo $PPID supervises; exec sleep 1000");
  for (const core::FenceToken& token : {run, other}) {
    ASSERT_TRUE(shell.runs().WaitForOutput(token, "supervises\n"));
  }
  int supervisor = 0;
  ASSERT_TRUE(absl::SimpleAtoi(shell.runs().text(run).substr(0, shell.runs().text(run).find(' ')),
                               &supervisor));
  const pid_t launcher = ParentOf(supervisor);
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  WaitUntilDead(launcher);
  EXPECT_EQ(shell.RunToEnd("exit 5").exit_code, 5);
  shell.runner().Stop(other);
  EXPECT_EQ(shell.runs().WaitForEnd(other).end, End::kCancelled);
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kFailed);
}

TEST(SupervisorTest, NoProcessOutlivesAKilledAgent) {
  const fs::path folder = NewFolder();
  const fs::path pids = folder / "pids";
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "0",
                 StubbornScript(pids, "echo $PPID >>$pids; wait")});
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  for (const pid_t pid : processes) EXPECT_TRUE(IsAlive(pid));
  agent.Signal(SIGKILL);
  for (const pid_t pid : processes) WaitUntilDead(pid);
  // The next agent waits for the processes, and their files are gone.
  RecordedRuns runs;
  const system::SystemClock clock;
  EXPECT_THAT(runner::SubprocessRunner::Create({.argv = {"/bin/true"}, .data_dir = folder / "data"},
                                               clock, runs),
              IsOk());
  EXPECT_TRUE(fs::is_empty(folder / "data" / "runs"));
}

// ---- Tasks that stop the processes of the agent -------------------------------------------------

// Captures the log of this process, which is the agent in these tests.
class AgentLog {
 public:
  AgentLog() {
    base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)});
  }
  ~AgentLog() { base::StartLogging({}); }

  // Returns the captured text and ends the capture.
  std::string Take() {
    base::StartLogging({});
    return text_.str();
  }

 private:
  std::ostringstream text_;
};

// Returns a stubborn script that suspends its supervisor.
std::string SupervisorSuspendingScript(const fs::path& pids) {
  return StubbornScript(pids, "kill -STOP $PPID; echo $PPID >>$pids; echo up; wait; sleep 1000");
}

TEST(SupervisorTest, TaskThatSuspendsItsSupervisorIsKilledAfterItsTimeout) {
  AgentLog log;
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  core::RunSpec spec = SpecOf(SupervisorSuspendingScript(pids));
  spec.timeout = absl::Milliseconds(500);
  const core::FenceToken run = shell.Start(spec, absl::Milliseconds(100));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_THAT(result.error, HasSubstr("supervisor"));
  EXPECT_THAT(log.Take(),
              ContainsRegex(absl::StrCat("WARN agent=supervisor_killed task_id=",
                                         core::TaskIdText(run.queue_id, run.dispatch),
                                         " pid=[0-9]+ why=\"the supervisor did not end the task at "
                                         "its timeout; ")));
  ExpectGone(processes);
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
}

TEST(SupervisorTest, TaskThatSuspendsItsSupervisorIsKilledAfterACancel) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run =
      shell.Start(SupervisorSuspendingScript(pids), absl::Milliseconds(100));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  ExpectGone(processes);
}

TEST(SupervisorTest, TaskThatSuspendsItsSupervisorIsKilledWithTheAgent) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(SupervisorSuspendingScript(pids));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  shell.Close();
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  ExpectGone(processes);
}

TEST(SupervisorTest, TaskThatSuspendsSupervisorAndLauncherIsKilledAfterACancel) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const pid_t launcher = runner::ChildProcesses().front();
  const core::FenceToken run =
      shell.Start(absl::StrCat("kill -STOP ", launcher, "\n", SupervisorSuspendingScript(pids)),
                  absl::Milliseconds(100));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  // The agent replaces the launcher in the meantime.
  WaitUntilDead(launcher);
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  ExpectGone(processes);
}

TEST(SupervisorTest, SuspendedLauncherIsReplaced) {
  AgentLog log;
  ShellRuns shell;
  const pid_t launcher = runner::ChildProcesses().front();
  const core::FenceToken older = shell.Start("echo up; exec sleep 1000");
  ASSERT_TRUE(shell.runs().WaitForOutput(older, "up"));
  ASSERT_EQ(kill(launcher, SIGSTOP), 0);
  EXPECT_EQ(shell.runs().WaitForEnd(shell.Start("exit 0")).end, End::kNotStarted);
  EXPECT_FALSE(IsAlive(launcher));
  EXPECT_THAT(log.Take(),
              HasSubstr(absl::StrCat("WARN agent=launcher_replaced pid=", launcher, " why=")));
  EXPECT_EQ(shell.RunToEnd("exit 5").exit_code, 5);
  EXPECT_EQ(shell.runs().ends(older), 0);
  shell.runner().Stop(older);
  EXPECT_EQ(shell.runs().WaitForEnd(older).signal, "SIGTERM");
}

TEST(SupervisorTest, SuspendedLauncherDoesNotDelayShutdown) {
  ShellRuns shell;
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
  const pid_t launcher = runner::ChildProcesses().front();
  ASSERT_EQ(kill(launcher, SIGSTOP), 0);
  shell.Close();
  EXPECT_FALSE(IsAlive(launcher));
}

// Runs `script` in an agent, kills the agent, and starts another one on the same folder. Returns
// the processes of the first agent, which the script must write to `pids` in `folder`.
std::vector<pid_t> RunUnderTwoAgents(const fs::path& folder, const std::string& script) {
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "0", script});
  std::vector<pid_t> running = WaitForPids(folder / "pids", kStubbornProcesses + 1);
  agent.Signal(SIGKILL);
  RecordedRuns runs;
  const system::SystemClock clock;
  CHECK_OK(runner::SubprocessRunner::Create({.argv = {"/bin/true"}, .data_dir = folder / "data"},
                                            clock, runs)
               .status());
  CHECK(fs::is_empty(folder / "data" / "runs"));
  return running;
}

TEST(SupervisorTest, SuspendedSupervisorDoesNotOutliveAKilledAgent) {
  const fs::path folder = NewFolder();
  ExpectGone(RunUnderTwoAgents(folder, SupervisorSuspendingScript(folder / "pids")));
  EXPECT_TRUE(fs::is_empty(folder / "data" / "work"));
}

TEST(SupervisorTest, NextAgentKillsASuspendedLauncher) {
  AgentLog log;
  const fs::path folder = NewFolder();
  // The fourth field of stat is the parent process. The parent of the supervisor is the launcher.
  ExpectGone(
      RunUnderTwoAgents(folder, absl::StrCat("kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat)\n",
                                             SupervisorSuspendingScript(folder / "pids"))));
  const std::string lines = log.Take();
  const std::string data_dir = absl::StrCat("data_dir=", (folder / "data").string());
  EXPECT_THAT(lines, ContainsRegex(absl::StrCat("WARN agent=waits_for_predecessor ", data_dir,
                                                " pid=[0-9]+ why=\"processes of a dead agent")));
  EXPECT_THAT(lines, HasSubstr("WARN agent=predecessor_killed " + data_dir));
  EXPECT_TRUE(fs::is_empty(folder / "data" / "work"));
}

TEST(SupervisorTest, LiveAgentKeepsItsFolder) {
  const fs::path folder = NewFolder();
  const fs::path pids = folder / "pids";
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "0",
                 absl::StrCat("echo $$ >>", pids.string(), "; exec sleep 1000")});
  const std::vector<pid_t> running = WaitForPids(pids, 1);
  RecordedRuns runs;
  const system::SystemClock clock;
  EXPECT_THAT(runner::SubprocessRunner::Create({.argv = {"/bin/true"}, .data_dir = folder / "data"},
                                               clock, runs),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat("process ", agent.pid()))));
  EXPECT_TRUE(IsAlive(running.front()));
}

// ---- A SIGTERM for all processes of a service ---------------------------------------------------

TEST(SupervisorTest, TaskKilledByAServiceWideSigtermIsCancelled) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo $PPID supervises; exec sleep 1000");
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "supervises\n"));
  const pid_t launcher = runner::ChildProcesses().front();
  int supervisor = 0;
  ASSERT_TRUE(absl::SimpleAtoi(shell.runs().text(run).substr(0, shell.runs().text(run).find(' ')),
                               &supervisor));
  // Signal the task first, so that its supervisor sees its death before it receives the SIGTERM.
  for (const pid_t pid : {static_cast<pid_t>(shell.runs().WaitForPid(run)), supervisor, launcher}) {
    ASSERT_EQ(kill(pid, SIGTERM), 0);
  }
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.signal, "SIGTERM");
  EXPECT_THAT(result.error, HasSubstr("SIGTERM"));
  EXPECT_TRUE(IsAlive(launcher));
  EXPECT_EQ(shell.RunToEnd("exit 5").exit_code, 5);
}

// Returns the result of a task that exits with `exit_code` on a SIGTERM to all processes of the
// agent.
core::RunResult RunWithTrappedSigterm(int exit_code) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start(absl::StrCat("trap 'exit ", exit_code, "' TERM; echo up; sleep 1000 & wait"));
  CHECK(shell.runs().WaitForOutput(run, "up\n"));
  const auto task = static_cast<pid_t>(shell.runs().WaitForPid(run));
  // In the order in which they were started, like systemd.
  for (const pid_t pid : {ParentOf(task), task}) CHECK_EQ(kill(pid, SIGTERM), 0);
  return shell.runs().WaitForEnd(run);
}

TEST(SupervisorTest, TaskThatFailsAfterAServiceWideSigtermIsCancelled) {
  for (const int exit_code : {1, 130}) {
    const core::RunResult result = RunWithTrappedSigterm(exit_code);
    EXPECT_EQ(result.end, End::kCancelled) << exit_code;
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_THAT(result.error, HasSubstr("SIGTERM"));
  }
}

TEST(SupervisorTest, TaskThatSucceedsAfterAServiceWideSigtermIsCompleted) {
  const core::RunResult result = RunWithTrappedSigterm(0);
  EXPECT_EQ(result.end, End::kCompleted) << result.error;
  EXPECT_EQ(result.exit_code, 0);
}

TEST(SupervisorTest, TaskThatTerminatesItselfFails) {
  ShellRuns shell;
  const core::RunResult result = shell.RunToEnd("kill -TERM $$");
  EXPECT_EQ(result.end, End::kFailed);
  EXPECT_EQ(result.signal, "SIGTERM");
}

TEST(SupervisorTest, KillLeavesNoGracePeriod) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start("trap '' TERM; echo up; while :; do sleep 1000; done", absl::Seconds(1000));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Kill(run);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.signal, "SIGKILL");
}

// The kernel reports ECONNRESET for the unread instruction before it delivers the report.
TEST(SupervisorTest, ReportIsReceivedWhenAnInstructionIsLeftUnread) {
  ShellRuns shell;
  const fs::path gate = shell.data_dir() / "gate";
  const core::FenceToken run = shell.Start(
      absl::StrCat("echo $PPID $$ >", (shell.data_dir() / "w").string(), "; mv ",
                   (shell.data_dir() / "w").string(), " ", (shell.data_dir() / "pids").string(),
                   "; while [ ! -e ", gate.string(), " ]; do sleep 0.01; done; echo done"));
  while (!fs::exists(shell.data_dir() / "pids")) std::this_thread::yield();
  int supervisor = 0;
  int task = 0;
  std::ifstream(shell.data_dir() / "pids") >> supervisor >> task;
  ASSERT_EQ(kill(supervisor, SIGSTOP), 0);
  std::ofstream(gate) << "open";
  WaitUntilDead(task);
  shell.runner().MoveFence(run, shell.clock().MonotonicNow() + absl::Minutes(1));
  // The loop sends the instruction before it calls the observer about the later run.
  shell.runs().Block();
  shell.Start("echo other");
  shell.runs().WaitUntilBlocked();
  // The supervisor sees that the task has ended before it reads instructions, and exits before its
  // report is read.
  ASSERT_EQ(kill(supervisor, SIGCONT), 0);
  WaitUntilDead(supervisor);
  shell.runs().Unblock();
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCompleted);
  EXPECT_EQ(result.result, "done\n");
}

TEST(SupervisorTest, FenceIsEnforcedWhileTheAgentIsSuspended) {
  const fs::path folder = NewFolder();
  const fs::path pids = folder / "pids";
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "1500",
                 StubbornScript(pids, "wait")});
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses);
  agent.Signal(SIGSTOP);
  for (const pid_t pid : processes) WaitUntilDead(pid);
  agent.Signal(SIGCONT);
  EXPECT_THAT(agent.WaitForLine("ended 3"), HasSubstr("fence"));
}

}  // namespace
}  // namespace callboard::test

int main(int argc, char** argv) {
  if (const auto code = callboard::runner::MaybeRunLauncher(argc, argv)) return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
