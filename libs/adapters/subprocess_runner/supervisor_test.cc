// What becomes of processes that do not want to end, and of those whose keepers died.
#include "libs/adapters/subprocess_runner/supervisor.h"

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
#include "libs/adapters/subprocess_runner/child_processes.h"
#include "libs/adapters/subprocess_runner/launcher.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/testing/file_text.h"
#include "libs/testing/process.h"
#include "libs/testing/process_table.h"
#include "libs/testing/shell_runs.h"
#include "libs/testing/status_matchers.h"

#ifdef __SANITIZE_ADDRESS__
// Keeps the last few megabytes that were freed instead of hundreds, which would count as growth.
extern "C" const char* __asan_default_options() { return "quarantine_size_mb=4"; }
#endif

namespace callboard::test {
namespace {

namespace fs = std::filesystem;

using End = core::RunResult::End;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// A script that starts processes of every kind that is hard to get rid of, and writes their
// numbers, and its own, to `pids`: kStubbornProcesses in all.
constexpr size_t kStubbornProcesses = 5;
std::string Stubborn(const fs::path& pids, const std::string& last) {
  return absl::StrCat("trap '' TERM HUP INT\n", "pids=", pids.string(),
                      "\n"
                      "sleep 1000 & echo $! >>$pids\n"
                      // In a session of its own, its parent gone.
                      "(setsid sh -c 'echo $$ >>'$pids'; exec sleep 1000' >/dev/null 2>&1 &)\n"
                      // The same, with children of its own and no environment.
                      "(setsid env -i sh -c 'sleep 1000 & echo $! >>'$pids'; echo $$ >>'$pids'; "
                      "wait' >/dev/null 2>&1 &)\n"
                      "echo $$ >>$pids\n",
                      last);
}

// What a test may grow by.
constexpr uint64_t kGrownKilobytesMax = 32 * 1024;

uint64_t ResidentKilobytes() { return StatusOf(getpid(), "VmRSS"); }

void ExpectGone(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    EXPECT_FALSE(IsAlive(pid)) << pid << " " << FileText(absl::StrCat("/proc/", pid, "/cmdline"));
  }
}

TEST(SupervisorTest, StopEndsWhatDoesNotWantToEnd) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(
      Stubborn(pids, "yes & yes >&2 & echo $! >>$pids; wait; yes"), absl::Milliseconds(300));
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

TEST(SupervisorTest, NumberOfTheTasksProcessIsTold) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo $$");
  EXPECT_EQ(absl::StrCat(shell.runs().WaitForPid(run), "\n"), shell.runs().WaitForEnd(run).result);
}

TEST(SupervisorTest, StopEndsWhatIsAlwaysSomebodyElse) {
  ShellRuns shell;
  // Each starts the next one and ends; the first of them has long ended.
  const core::FenceToken run =
      shell.Start("trap '' TERM; comet() { comet & }; (comet); echo up; while :; do wait; done",
                  absl::Milliseconds(100));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  const core::FenceToken leaves = shell.Start("comet() { comet & }; comet; exit 6");
  EXPECT_EQ(shell.runs().WaitForEnd(leaves).exit_code, 6);
}

TEST(SupervisorTest, FloodCostsNoMemory) {
  ShellRuns shell;
  const uint64_t before = ResidentKilobytes();
  const core::FenceToken run = shell.Start("head -c 1000000000 /dev/zero; echo end");
  EXPECT_TRUE(shell.runs().WaitForEnd(run).result.ends_with("end\n"));
  EXPECT_LT(ResidentKilobytes(), before + kGrownKilobytesMax);
}

TEST(SupervisorTest, TaskHasTheGraceToEnd) {
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

TEST(SupervisorTest, StoppedProcessHearsOfItsEnd) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo up; kill -STOP $$");
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
}

TEST(SupervisorTest, NothingOutlivesTheTask) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run =
      shell.Start(Stubborn(pids, absl::StrCat("while [ $(wc -l <$pids) -lt ", kStubbornProcesses,
                                              " ]; do sleep 0.01; done; exit 4")));
  EXPECT_EQ(shell.runs().WaitForEnd(run).exit_code, 4);
  ExpectGone(WaitForPids(pids, kStubbornProcesses));
}

TEST(SupervisorTest, TaskThatTakesTooLongIsTimedOut) {
  ShellRuns shell;
  core::TaskSpec spec = SpecOf("exec sleep 1000");
  spec.timeout = absl::Milliseconds(50);
  const core::RunResult result = shell.RunToEnd(spec);
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_EQ(result.signal, "SIGTERM");
}

TEST(SupervisorTest, TaskIsKilledAtItsFence) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start(SpecOf("exec sleep 1000"), absl::Seconds(10), absl::Milliseconds(50));
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_THAT(result.error, HasSubstr("fence"));
}

TEST(SupervisorTest, FenceThatPassedLongAgoLeavesNoGrace) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start("trap '' TERM; echo up; while :; do sleep 1000; done", absl::Seconds(1000));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().SetFence(run, shell.clock().MonotonicNow() - absl::Seconds(1001));
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.signal, "SIGKILL");
}

TEST(SupervisorTest, NothingIsStartedPastItsFence) {
  ShellRuns shell;
  const fs::path file = shell.data_dir() / "ran";
  const core::FenceToken run =
      shell.Start(SpecOf("touch " + file.string()), absl::Seconds(1), absl::Seconds(-1));
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
}

TEST(SupervisorTest, FenceMovesBothWays) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start(SpecOf("exec sleep 1000"), absl::Seconds(10), absl::Milliseconds(500));
  shell.runner().SetFence(run, absl::InfiniteDuration());
  const core::FenceToken other =
      shell.Start(SpecOf("exec sleep 1000"), absl::Seconds(10), absl::Milliseconds(600));
  EXPECT_EQ(shell.runs().WaitForEnd(other).end, End::kCancelled);
  EXPECT_EQ(shell.runs().ends(run), 0);
  shell.runner().SetFence(run, shell.clock().MonotonicNow());
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
}

TEST(SupervisorTest, DeathOfTheSupervisorIsToldOnceItsProcessesAreGone) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(Stubborn(pids, "echo $PPID supervises; wait"));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "supervises\n"));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses);
  int supervisor = 0;
  ASSERT_TRUE(absl::SimpleAtoi(shell.runs().text(run).substr(0, shell.runs().text(run).find(' ')),
                               &supervisor));
  ASSERT_EQ(kill(supervisor, SIGKILL), 0);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kFailed);
  EXPECT_THAT(result.error, HasSubstr("supervised"));
  ExpectGone(processes);
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "work"));
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
}

TEST(SupervisorTest, RunForWhichNoDescriptorIsLeftIsNotStartedAndLeavesNoneBehind) {
  ShellRuns shell;
  const pid_t launcher = adapters::ChildProcesses().front();
  rlimit files = {};
  ASSERT_EQ(prlimit(launcher, RLIMIT_NOFILE, nullptr, &files), 0);
  const auto run_with = [&](rlim_t most) {
    const rlimit limit = {most, files.rlim_max};
    EXPECT_EQ(prlimit(launcher, RLIMIT_NOFILE, &limit, nullptr), 0);
    return shell.RunToEnd("exit 0");
  };
  // It has six, takes up to four for the run, and with ten the supervisor gets one too few.
  for (const rlim_t most : {6, 7, 8, 9, 10}) {
    const core::RunResult result = run_with(most);
    EXPECT_EQ(result.end, End::kNotStarted) << most << " " << result.error;
  }
  EXPECT_THAT(run_with(9).error, HasSubstr("no descriptor left"));
  EXPECT_EQ(run_with(12), (core::RunResult{.end = End::kCompleted, .exit_code = 0}));
}

TEST(SupervisorTest, RunWhoseLauncherDiesWithItsOrderIsNotStarted) {
  ShellRuns shell;
  const pid_t launcher = adapters::ChildProcesses().front();
  ASSERT_EQ(kill(launcher, SIGSTOP), 0);
  const core::FenceToken run = shell.Start("exit 0");
  // What is said at once comes after what was sent before.
  core::TaskSpec impossible = SpecOf("exit 0");
  impossible.project = core::Project{.name = "", .path = "nowhere"};
  ASSERT_EQ(shell.RunToEnd(impossible).end, End::kNotStarted);
  ASSERT_EQ(kill(launcher, SIGKILL), 0);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kNotStarted);
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
}

TEST(SupervisorTest, RunsGoOnWithoutTheirLauncher) {
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

TEST(SupervisorTest, NothingOutlivesAnAgentThatIsKilled) {
  const fs::path folder = NewFolder();
  const fs::path pids = folder / "pids";
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "0",
                 Stubborn(pids, "echo $PPID >>$pids; wait")});
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  for (const pid_t pid : processes) EXPECT_TRUE(IsAlive(pid));
  agent.Signal(SIGKILL);
  for (const pid_t pid : processes) WaitUntilDead(pid);
  // The next one waits for that, and finds nothing.
  RecordedRuns runs;
  const adapters::SystemClock clock;
  EXPECT_THAT(adapters::SubprocessRunner::Create(
                  {.argv = {"/bin/true"}, .data_dir = folder / "data"}, clock, runs),
              IsOk());
  EXPECT_TRUE(fs::is_empty(folder / "data" / "runs"));
}

// ---- Tasks that stop the processes of the agent -------------------------------------------------

// The log of this process, which is the agent here.
class AgentLog {
 public:
  AgentLog() {
    base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)});
  }
  ~AgentLog() { base::StartLogging({}); }

  // All of it; later lines go elsewhere.
  std::string Take() {
    base::StartLogging({});
    return text_.str();
  }

 private:
  std::ostringstream text_;
};

// A script that does not want to end and has stopped its supervisor.
std::string StopsItsSupervisor(const fs::path& pids) {
  return Stubborn(pids, "kill -STOP $PPID; echo $PPID >>$pids; echo up; wait; sleep 1000");
}

TEST(SupervisorTest, TaskThatStopsItsSupervisorIsGoneAfterItsTimeout) {
  AgentLog log;
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  core::TaskSpec spec = SpecOf(StopsItsSupervisor(pids));
  spec.timeout = absl::Milliseconds(500);
  const core::FenceToken run = shell.Start(spec, absl::Milliseconds(100));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kTimedOut);
  EXPECT_THAT(result.error, HasSubstr("supervisor"));
  EXPECT_THAT(log.Take(),
              ContainsRegex(absl::StrCat("WARN agent=supervisor_killed task_id=",
                                         core::TaskIdText(run.queue_id, run.dispatch),
                                         " pid=[0-9]+ why=\"its supervisor did not end it at its "
                                         "timeout; ")));
  ExpectGone(processes);
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
}

TEST(SupervisorTest, TaskThatStopsItsSupervisorIsGoneAfterItsCancel) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(StopsItsSupervisor(pids), absl::Milliseconds(100));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  ExpectGone(processes);
}

TEST(SupervisorTest, TaskThatStopsItsSupervisorIsGoneWithTheAgent) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const core::FenceToken run = shell.Start(StopsItsSupervisor(pids));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  shell.Close();
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  ExpectGone(processes);
}

TEST(SupervisorTest, TaskThatStopsItsSupervisorAndItsLauncherIsGoneAfterItsCancel) {
  ShellRuns shell;
  const fs::path pids = shell.data_dir() / "pids";
  const pid_t launcher = adapters::ChildProcesses().front();
  const core::FenceToken run =
      shell.Start(absl::StrCat("kill -STOP ", launcher, "\n", StopsItsSupervisor(pids)),
                  absl::Milliseconds(100));
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses + 1);
  // Its launcher is replaced meanwhile.
  WaitUntilDead(launcher);
  shell.runner().Stop(run);
  EXPECT_EQ(shell.runs().WaitForEnd(run).end, End::kCancelled);
  ExpectGone(processes);
}

TEST(SupervisorTest, LauncherThatIsStoppedIsReplaced) {
  AgentLog log;
  ShellRuns shell;
  const pid_t launcher = adapters::ChildProcesses().front();
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

TEST(SupervisorTest, LauncherThatIsStoppedDoesNotHoldUpTheEnd) {
  ShellRuns shell;
  EXPECT_EQ(shell.RunToEnd("exit 0").end, End::kCompleted);
  const pid_t launcher = adapters::ChildProcesses().front();
  ASSERT_EQ(kill(launcher, SIGSTOP), 0);
  shell.Close();
  EXPECT_FALSE(IsAlive(launcher));
}

// Has `script` run by an agent that is killed, and starts the next one on its folder. Returns what
// the first one ran: as many processes as the script writes to `pids` in `folder`.
std::vector<pid_t> RunUnderTwoAgents(const fs::path& folder, const std::string& script) {
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "0", script});
  std::vector<pid_t> running = WaitForPids(folder / "pids", kStubbornProcesses + 1);
  agent.Signal(SIGKILL);
  RecordedRuns runs;
  const adapters::SystemClock clock;
  CHECK_OK(adapters::SubprocessRunner::Create({.argv = {"/bin/true"}, .data_dir = folder / "data"},
                                              clock, runs)
               .status());
  CHECK(fs::is_empty(folder / "data" / "runs"));
  return running;
}

TEST(SupervisorTest, SupervisorThatIsStoppedDoesNotOutliveAnAgentThatIsKilled) {
  const fs::path folder = NewFolder();
  ExpectGone(RunUnderTwoAgents(folder, StopsItsSupervisor(folder / "pids")));
  EXPECT_TRUE(fs::is_empty(folder / "data" / "work"));
}

TEST(SupervisorTest, NextAgentKillsALauncherThatIsStopped) {
  AgentLog log;
  const fs::path folder = NewFolder();
  // The fourth field of stat is the parent: the supervisor's is the launcher.
  ExpectGone(
      RunUnderTwoAgents(folder, absl::StrCat("kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat)\n",
                                             StopsItsSupervisor(folder / "pids"))));
  const std::string lines = log.Take();
  const std::string data_dir = absl::StrCat("data_dir=", (folder / "data").string());
  EXPECT_THAT(lines, ContainsRegex(absl::StrCat("WARN agent=waits_for_predecessor ", data_dir,
                                                " pid=[0-9]+ why=\"processes of a dead agent")));
  EXPECT_THAT(lines, HasSubstr("WARN agent=predecessor_killed " + data_dir));
  EXPECT_TRUE(fs::is_empty(folder / "data" / "work"));
}

TEST(SupervisorTest, AgentThatIsAliveKeepsItsFolder) {
  const fs::path folder = NewFolder();
  const fs::path pids = folder / "pids";
  Process agent({BuiltBinary("libs/testing/runner_host"), folder / "data", "0",
                 absl::StrCat("echo $$ >>", pids.string(), "; exec sleep 1000")});
  const std::vector<pid_t> running = WaitForPids(pids, 1);
  RecordedRuns runs;
  const adapters::SystemClock clock;
  EXPECT_THAT(adapters::SubprocessRunner::Create(
                  {.argv = {"/bin/true"}, .data_dir = folder / "data"}, clock, runs),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat("process ", agent.pid()))));
  EXPECT_TRUE(IsAlive(running.front()));
}

// ---- A SIGTERM for all processes of a service ---------------------------------------------------

TEST(SupervisorTest, TaskThatDiesOfASigtermForEverybodyIsNotToBlame) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("echo $PPID supervises; exec sleep 1000");
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "supervises\n"));
  const pid_t launcher = adapters::ChildProcesses().front();
  int supervisor = 0;
  ASSERT_TRUE(absl::SimpleAtoi(shell.runs().text(run).substr(0, shell.runs().text(run).find(' ')),
                               &supervisor));
  // The task first: its supervisor hears of its death before it hears of the signal.
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

// The end of a task that answers a SIGTERM for all processes of the agent with that exit code.
core::RunResult EndAfterTrappedSigterm(int exit_code) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start(absl::StrCat("trap 'exit ", exit_code, "' TERM; echo up; sleep 1000 & wait"));
  CHECK(shell.runs().WaitForOutput(run, "up\n"));
  const auto task = static_cast<pid_t>(shell.runs().WaitForPid(run));
  // As systemd does: in the order in which they began.
  for (const pid_t pid : {ParentOf(task), task}) CHECK_EQ(kill(pid, SIGTERM), 0);
  return shell.runs().WaitForEnd(run);
}

TEST(SupervisorTest, TaskThatTrapsASigtermForEverybodyAndFailsIsNotToBlame) {
  for (const int exit_code : {1, 130}) {
    const core::RunResult result = EndAfterTrappedSigterm(exit_code);
    EXPECT_EQ(result.end, End::kCancelled) << exit_code;
    EXPECT_EQ(result.exit_code, exit_code);
    EXPECT_THAT(result.error, HasSubstr("SIGTERM"));
  }
}

TEST(SupervisorTest, TaskThatTrapsASigtermForEverybodyAndSucceedsIsCompleted) {
  const core::RunResult result = EndAfterTrappedSigterm(0);
  EXPECT_EQ(result.end, End::kCompleted) << result.error;
  EXPECT_EQ(result.exit_code, 0);
}

TEST(SupervisorTest, TaskThatTerminatesItselfIsToBlame) {
  ShellRuns shell;
  const core::RunResult result = shell.RunToEnd("kill -TERM $$");
  EXPECT_EQ(result.end, End::kFailed);
  EXPECT_EQ(result.signal, "SIGTERM");
}

TEST(SupervisorTest, KillLeavesNoGrace) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start("trap '' TERM; echo up; while :; do sleep 1000; done", absl::Seconds(1000));
  ASSERT_TRUE(shell.runs().WaitForOutput(run, "up"));
  shell.runner().Kill(run);
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCancelled);
  EXPECT_EQ(result.signal, "SIGKILL");
}

// The kernel says that there was something unread before it hands out the report.
TEST(SupervisorTest, ReportIsHeardAlsoWhenTheSupervisorLeavesAnInstructionUnread) {
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
  shell.runner().SetFence(run, shell.clock().MonotonicNow() + absl::Minutes(1));
  // The instruction is sent before what was asked for later is said.
  shell.runs().HoldUp();
  shell.Start("echo other");
  shell.runs().WaitUntilHeldUp();
  // It sees that the task has ended before it looks for instructions, and is gone before its report
  // is read.
  ASSERT_EQ(kill(supervisor, SIGCONT), 0);
  WaitUntilDead(supervisor);
  shell.runs().GoOn();
  const core::RunResult result = shell.runs().WaitForEnd(run);
  EXPECT_EQ(result.end, End::kCompleted);
  EXPECT_EQ(result.result, "done\n");
}

TEST(SupervisorTest, FenceHoldsWhileTheAgentIsStopped) {
  const fs::path folder = NewFolder();
  const fs::path pids = folder / "pids";
  Process agent(
      {BuiltBinary("libs/testing/runner_host"), folder / "data", "1500", Stubborn(pids, "wait")});
  const std::vector<pid_t> processes = WaitForPids(pids, kStubbornProcesses);
  agent.Signal(SIGSTOP);
  for (const pid_t pid : processes) WaitUntilDead(pid);
  agent.Signal(SIGCONT);
  EXPECT_THAT(agent.WaitForLine("ended 3"), HasSubstr("fence"));
}

}  // namespace
}  // namespace callboard::test

int main(int argc, char** argv) {
  if (const auto code = callboard::adapters::MaybeRunSupervisor(argc, argv)) return *code;
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
