#include "libs/runner/subprocess_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/log.h"
#include "libs/core/limits.h"
#include "libs/runner/launcher.h"
#include "libs/runner/run_files.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/shell_runs.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/task_runner_contract.h"

namespace callboard::test {
namespace {

namespace fs = std::filesystem;

using End = core::RunResult::End;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct SubprocessHarness {
  static constexpr bool kLasts = true;

  explicit SubprocessHarness(ports::RunObserver& observer) {
    auto created =
        runner::SubprocessRunner::Create({.kind = runner::SubprocessRunnerOptions::Kind::kShell,
                                          .allow_shell = true,
                                          .environment = {{"PATH", "/usr/bin:/bin"}},
                                          .env_allow = {"PATH"},
                                          .data_dir = data_dir},
                                         clock, observer);
    CHECK_OK(created.status());
    subprocesses = *std::move(created);
  }

  ports::TaskRunner& runner() { return *subprocesses; }
  void Destroy() { subprocesses.reset(); }
  // Returns a task that creates a pipe and ends when it has read a line from it.
  core::RunSpec Spec() {
    return SpecOf("mkfifo " + data_dir.string() + "/$CALLBOARD_QUEUE_ID; read line <" +
                  data_dir.string() + "/$CALLBOARD_QUEUE_ID");
  }
  void Finish(const core::FenceToken& run) {
    const fs::path pipe = data_dir / core::ToString(run.queue_id);
    while (!fs::is_fifo(pipe)) std::this_thread::yield();
    std::ofstream(pipe) << "end\n";
  }
  void ApplyStop(const core::FenceToken&) {}

  const fs::path data_dir = NewFolder();
  const system::SystemClock clock;
  std::unique_ptr<runner::SubprocessRunner> subprocesses;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Subprocess, TaskRunnerContractTest, SubprocessHarness);

TEST(SubprocessRunnerTest, ExitCodesAndSignalsAreExact) {
  ShellRuns shell;
  EXPECT_EQ(shell.RunToEnd("exit 0"), (core::RunResult{.end = End::kCompleted, .exit_code = 0}));
  EXPECT_EQ(shell.RunToEnd("exit 7"), (core::RunResult{.end = End::kFailed, .exit_code = 7}));
  EXPECT_EQ(shell.RunToEnd("exit 255"), (core::RunResult{.end = End::kFailed, .exit_code = 255}));
  EXPECT_EQ(shell.RunToEnd("kill -KILL $$"),
            (core::RunResult{.end = End::kFailed, .signal = "SIGKILL"}));
  EXPECT_EQ(shell.RunToEnd("kill -SEGV $$"),
            (core::RunResult{.end = End::kFailed, .signal = "SIGSEGV"}));
}

TEST(SubprocessRunnerTest, MissingProgramIsNotStarted) {
  const fs::path program = NewFolder() / "program";
  fs::copy_file("/bin/true", program);
  ShellRuns runs({program});
  EXPECT_EQ(runs.RunToEnd("prompt").end, End::kCompleted);
  fs::remove(program);
  const core::RunResult result = runs.RunToEnd("prompt");
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.error, HasSubstr(program.string()));
}

TEST(SubprocessRunnerTest, ProgramWithAMissingInterpreterIsNotStarted) {
  const fs::path program = NewFolder() / "program";
  std::ofstream(program) << "#!/no/such/interpreter\n";
  fs::permissions(program, fs::perms::owner_all);
  EXPECT_EQ(ShellRuns({program}).RunToEnd("prompt").end, End::kNotStarted);
}

TEST(SubprocessRunnerTest, RunIsNotStartedWhenItsFoldersCannotBeCreated) {
  ShellRuns shell;
  std::filesystem::remove_all(shell.data_dir() / "runs");
  std::ofstream(shell.data_dir() / "runs") << "in the way";
  const core::RunResult result = shell.RunToEnd("exit 0");
  EXPECT_EQ(result.end, End::kNotStarted);
  EXPECT_THAT(result.error, HasSubstr((shell.data_dir() / "runs").string()));
}

TEST(SubprocessRunnerTest, EnvironmentIsExact) {
  ShellRuns runs({"env", "-0"});
  core::RunSpec spec = SpecOf("prompt");
  spec.env = {{"TASK", "its own\nline"}};
  ports::RunRequest request = MakeRunRequest(RunToken(1), spec);
  const core::FenceToken run = runs.Start(spec);
  ASSERT_EQ(runs.runs().WaitForEnd(run).exit_code, 0);
  const fs::path folder = runs.data_dir() / "runs" / request.task_id;
  const std::string queue_id = core::ToString(run.queue_id);
  EXPECT_THAT(
      absl::StrSplit(runs.runs().text(run), '\0', absl::SkipEmpty()),
      testing::UnorderedElementsAre(
          "PATH=/usr/bin:/bin", "TASK=its own\nline", "CALLBOARD_TASK_ID=" + request.task_id,
          "CALLBOARD_QUEUE_ID=" + queue_id, "CALLBOARD_FENCE=" + queue_id + "/1/7",
          "CALLBOARD_PROMPT_FILE=" + (folder / "prompt").string(),
          "CALLBOARD_RESULT_FILE=" + (folder / "result.json").string(),
          "CALLBOARD_ARTIFACTS=" + (folder / "artifacts").string()));
}

TEST(SubprocessRunnerTest, NoDescriptorIsInherited) {
  ShellRuns runs({"ls", "/proc/self/fd"});
  const core::FenceToken run = runs.Start("prompt");
  runs.runs().WaitForEnd(run);
  // The last descriptor is the folder that `ls` lists.
  EXPECT_EQ(runs.runs().text(run), "0\n1\n2\n3\n");
}

TEST(SubprocessRunnerTest, ProcessAttributesAreExact) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start(
      "umask; ulimit -c; ulimit -n; stat -c %a . $CALLBOARD_PROMPT_FILE; "
      "ps -o pgid=,sid= -p $$ | tr -s ' ' '\\n' | grep -cx $$; "
      "grep -E 'SigBlk|SigIgn|NoNewPrivs' /proc/$$/status | cut -f2");
  shell.runs().WaitForEnd(run);
  // Signals 32 and 33 are internal to libc, which ignores them in spawned processes.
  EXPECT_EQ(shell.runs().text(run),
            "0077\n0\n1024\n700\n600\n2\n0000000000000000\n0000000180000000\n1\n");
}

TEST(SubprocessRunnerTest, PromptIsInInputAndFileButNotInTheCommandLine) {
  ShellRuns runs({"sh", "-c", "cat; cat $CALLBOARD_PROMPT_FILE; echo end; exec sleep 1000"});
  const std::string prompt = "very secret 8471\n";
  const core::FenceToken run = runs.Start(prompt, absl::ZeroDuration());
  ASSERT_TRUE(runs.runs().WaitForOutput(run, "end\n"));
  EXPECT_EQ(runs.runs().text(run), prompt + prompt + "end\n");
  EXPECT_THAT(ProcessesNaming("secret 8471"), IsEmpty());
  runs.runner().Stop(run);
  EXPECT_EQ(runs.runs().WaitForEnd(run).end, End::kCancelled);
}

TEST(SubprocessRunnerTest, UnreadLargePromptDoesNotBlockTheTask) {
  ShellRuns runs({"true"});
  EXPECT_EQ(runs.RunToEnd(std::string(core::kBodyBytesMax, 'p')).end, End::kCompleted);
  ShellRuns reader({"wc", "-c"});
  EXPECT_EQ(reader.RunToEnd(std::string(core::kBodyBytesMax, 'p')).result, "1048576\n");
}

TEST(SubprocessRunnerTest, ResultIsTheFileOrTheEndOfTheOutput) {
  ShellRuns shell;
  EXPECT_EQ(shell.RunToEnd("echo noise; echo '{}' >$CALLBOARD_RESULT_FILE").result, "{}\n");
  EXPECT_EQ(shell.RunToEnd("echo text; echo error >&2; exit 3").result, "text\n");
  const core::RunResult long_output = shell.RunToEnd("head -c 200000 /dev/zero; echo end");
  EXPECT_EQ(long_output.result.size(), core::kResultBytesMax);
  EXPECT_TRUE(long_output.result.ends_with("end\n"));
  EXPECT_TRUE(long_output.result_truncated);
  const core::RunResult long_file =
      shell.RunToEnd("(head -c 200000 /dev/zero; echo end) >$CALLBOARD_RESULT_FILE");
  EXPECT_EQ(long_file.result.size(), core::kResultBytesMax);
  EXPECT_TRUE(long_file.result.ends_with("end\n"));
  EXPECT_TRUE(long_file.result_truncated);
}

TEST(SubprocessRunnerTest, ArtifactsAreKeptOnSuccessOnly) {
  ShellRuns shell;
  const auto kept = [&shell](const core::FenceToken& run) {
    return shell.data_dir() / "artifacts" / core::TaskIdText(run.queue_id, run.dispatch);
  };
  const std::string write = "echo text >$CALLBOARD_ARTIFACTS/file; ";
  const core::FenceToken completed = shell.Start(write + "exit 0");
  const core::FenceToken failed = shell.Start(write + "exit 1");
  core::RunSpec late = SpecOf(write + "exec sleep 1000");
  late.timeout = absl::Milliseconds(500);
  const core::FenceToken timed_out = shell.Start(late);
  const core::FenceToken stopped = shell.Start(write + "echo written; exec sleep 1000");
  ASSERT_TRUE(shell.runs().WaitForOutput(stopped, "written"));
  EXPECT_FALSE(fs::exists(kept(stopped)));
  shell.runner().Stop(stopped);
  EXPECT_EQ(shell.runs().WaitForEnd(completed).end, End::kCompleted);
  EXPECT_EQ(shell.runs().WaitForEnd(failed).end, End::kFailed);
  EXPECT_EQ(shell.runs().WaitForEnd(timed_out).end, End::kTimedOut);
  EXPECT_EQ(shell.runs().WaitForEnd(stopped).end, End::kCancelled);
  EXPECT_EQ(FileText(kept(completed) / "file"), "text\n");
  for (const core::FenceToken& run : {failed, timed_out, stopped}) {
    EXPECT_FALSE(fs::exists(kept(run)));
  }
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "runs"));
  EXPECT_TRUE(fs::is_empty(shell.data_dir() / "work"));
}

TEST(SubprocessRunnerTest, SessionsAndProjectsKeepTheirFolders) {
  ShellRuns shell;
  core::RunSpec spec = SpecOf("cat file; echo text >file");
  spec.session_id = "../one";
  EXPECT_EQ(shell.RunToEnd(spec).result, "");
  EXPECT_EQ(shell.RunToEnd(spec).result, "text\n");
  spec.session_id = "two";
  EXPECT_EQ(shell.RunToEnd(spec).result, "");
  spec = SpecOf("pwd");
  spec.project = core::Project{.name = "p", .path = NewFolder()};
  EXPECT_EQ(shell.RunToEnd(spec).result, spec.project.path + "\n");
}

TEST(SubprocessRunnerTest, StreamsAreSeparateAndInOrder) {
  ShellRuns shell;
  const core::FenceToken run =
      shell.Start("for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo error $i >&2; done");
  shell.runs().WaitForEnd(run);
  EXPECT_THAT(shell.runs().text(run), testing::StartsWith("out 1\nout 2\n"));
  EXPECT_THAT(shell.runs().text(run, ports::OutputStream::kStderr),
              testing::EndsWith("error 8\nerror 9\n"));
  // Eighteen writes are joined to fewer chunks.
  EXPECT_LE(shell.runs().chunks(run).size(), 9u);
}

TEST(SubprocessRunnerTest, DeliveryMakesRoomForOutput) {
  ShellRuns shell;
  const std::string pipe = shell.data_dir() / "pipe";
  const std::vector<std::string> parts = {"1", "2", "3", "4"};
  for (const std::string& part : parts) ASSERT_EQ(mkfifo((pipe + part).c_str(), 0600), 0);
  const core::FenceToken run = shell.Start(
      "for i in 1 2 3 4; do head -c 100000 /dev/zero; echo $i; read x <" + pipe + "$i; done");
  for (const std::string& part : parts) {
    ASSERT_TRUE(shell.runs().WaitForOutput(run, part + "\n"));
    shell.runner().AcknowledgeOutput(run, 100'002);
    std::ofstream(pipe + part) << "go on\n";
  }
  shell.runs().WaitForEnd(run);
  EXPECT_EQ(shell.runs().text(run).size(), 4 * 100'002u);
}

TEST(SubprocessRunnerTest, UndeliveredOutputIsDroppedAndCounted) {
  ShellRuns shell;
  const core::FenceToken run = shell.Start("seq 1 200000");
  EXPECT_TRUE(shell.runs().WaitForEnd(run).result.ends_with("\n199999\n200000\n"));
  uint64_t dropped = 0;
  for (const ports::OutputChunk& chunk : shell.runs().chunks(run)) dropped += chunk.dropped_bytes;
  const std::string text = shell.runs().text(run);
  EXPECT_TRUE(text.starts_with("1\n2\n3\n"));
  EXPECT_TRUE(text.ends_with("\n199999\n200000\n"));
  EXPECT_LE(text.size(), runner::OutputLog::kUndeliveredBytesMax);
  EXPECT_EQ(text.size() + dropped, 1'288'895u);
}

TEST(SubprocessRunnerTest, ManyRunsAtOnce) {
  ShellRuns shell;
  std::vector<core::FenceToken> tokens;
  for (int i = 0; i < 200; ++i) tokens.push_back(shell.Start("echo " + std::to_string(i)));
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(shell.runs().WaitForEnd(tokens[i]).result, std::to_string(i) + "\n");
  }
}

TEST(SubprocessRunnerTest, ExampleScriptWorks) {
  ShellRuns runs({fs::absolute("deploy/examples/run_task.sh"), "{model}"});
  core::RunSpec spec = SpecOf("three short words");
  spec.model = "opus";
  spec.session_id = "session";
  for (const uint64_t run : {1, 2}) {
    const core::RunResult result = runs.RunToEnd(spec);
    EXPECT_EQ(result.end, End::kCompleted) << result.error;
    EXPECT_EQ(result.result, "{\"words\": 3, \"model\": \"opus\"}\n");
    EXPECT_EQ(FileText(runs.data_dir() / "artifacts" / MakeRunRequest(RunToken(run), spec).task_id /
                       "prompt.txt"),
              "three short words");
  }
  const fs::path session = fs::directory_iterator(runs.data_dir() / "sessions")->path();
  const std::string history = FileText(session / "history");
  EXPECT_EQ(std::count(history.begin(), history.end(), '\n'), 2) << history;
}

TEST(SubprocessRunnerTest, SecondRunnerWaitsForTheFirstAndRemovesItsFiles) {
  ShellRuns shell;
  fs::create_directories(shell.data_dir() / "runs" / "left");
  std::ofstream(shell.data_dir() / "work" / "left") << "text";
  RecordedRuns runs;
  std::thread closer([&shell] { shell.Close(); });
  const auto second = runner::SubprocessRunner::Create(shell.Options(), shell.clock(), runs);
  closer.join();
  ASSERT_THAT(second, IsOk());
  EXPECT_FALSE(fs::exists(shell.data_dir() / "runs" / "left"));
  EXPECT_FALSE(fs::exists(shell.data_dir() / "work" / "left"));
}

TEST(SubprocessRunnerTest, AgentWithoutDiskSpaceStartsWithAWarning) {
  std::ostringstream log;
  base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(log)});
  const system::SystemClock clock;
  RecordedRuns runs;
  const fs::path folder = NewFolder() / "data";
  for (const uint64_t free_bytes_min : {uint64_t{1}, uint64_t{1} << 62}) {
    EXPECT_EQ(log.str(), "");
    EXPECT_THAT(runner::SubprocessRunner::Create(
                    {.argv = {"/bin/true"}, .data_dir = folder, .free_bytes_min = free_bytes_min},
                    clock, runs),
                IsOk());
  }
  base::StartLogging({});
  EXPECT_THAT(log.str(),
              HasSubstr(absl::StrCat("WARN agent=no_space error=\"no space for a run in ",
                                     folder.string())));
  EXPECT_THAT(log.str(), HasSubstr("next=\""));
}

}  // namespace
}  // namespace callboard::test
