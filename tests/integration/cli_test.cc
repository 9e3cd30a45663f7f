// The program callboard: its output, its exit codes, and the cluster that it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/tcp_proxy.h"

namespace callboard {
namespace {

using test::BuiltBinary;
using test::FieldOf;
using test::FileText;
using test::HeldStream;
using test::HttpGet;
using test::OtlpCollector;
using test::Process;
using test::ProcessResult;
using test::RunningServer;
using test::RunToEnd;
using test::TcpProxy;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::Optional;
using ::testing::StartsWith;

std::vector<std::string> Command(const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {BuiltBinary("services/cli/callboard")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

ProcessResult RunCallboard(const std::vector<std::string>& arguments) {
  return RunToEnd(Command(arguments));
}

// `callboard dev` on free ports.
class RunningDev {
 public:
  explicit RunningDev(const std::vector<std::string>& flags = {}) : process_(DevCommand(flags)) {
    process_.WaitForLine("Ctrl-C stops it.");
  }

  static std::vector<std::string> DevCommand(const std::vector<std::string>& flags) {
    std::vector<std::string> command =
        Command({"dev", "--grpc.listen=127.0.0.1:0", "--http.listen=127.0.0.1:0",
                 "--scheduler.grpc.listen=127.0.0.1:0", "--scheduler.http.listen=127.0.0.1:0",
                 absl::StrCat("--data_dir=", testing::TempDir(), "/dev")});
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }

  Process& process() { return process_; }

  // Returns the flag in the command that it suggests.
  std::string AddressFlag() {
    const std::string output = process_.Output();
    const size_t begin = output.find("--director.address=");
    CHECK(begin != std::string::npos) << output;
    return output.substr(begin, output.find('\n', begin) - begin);
  }

 private:
  Process process_;
};

// Returns the log lines with the servers' addresses.
std::vector<std::string> ListeningLines(const std::string& output) {
  std::vector<std::string> lines = absl::StrSplit(output, '\n');
  std::erase_if(
      lines, [](const std::string& line) { return !absl::StrContains(line, "server=listening"); });
  return lines;
}

TEST(CliTest, VersionIsTextOrOneJsonDocument) {
  EXPECT_EQ(RunCallboard({"version"}).output, "callboard 0.1.0\n");
  EXPECT_EQ(RunCallboard({"version", "-o", "json"}).output, "{\"version\":\"0.1.0\"}\n");
}

TEST(CliTest, EveryHelpTextBeginsWithExamples) {
  const std::vector<std::vector<std::string>> commands = {
      {"--help"},
      {"dev", "--help"},
      {"queue-status", "--help"},
      {"help", "version"},
      {"completion", "--help"},
      {"help", "watch"},
      {"logs", "--help"},
      {"db", "--help"},
      {"db", "verify", "--help"},
      {"db", "stats", "--help"},
      {"db", "get", "--help"},
      {"db", "export", "--help"},
      {"db", "checkpoint", "--help"},
      {"help", "db", "restore"},
      {"jobs", "--help"},
      {"trigger", "--help"},
      {"preview", "--help"},
      {"backfill", "--help"},
      {"pause", "--help"},
      {"help", "resume"},
  };
  for (const auto& command : commands) {
    const ProcessResult help = RunCallboard(command);
    EXPECT_EQ(help.exit_code, 0) << command.front();
    EXPECT_LT(help.output.find("Examples:\n  "), help.output.find("--help")) << command.front();
  }
}

TEST(CliTest, WrongUsageExitsWith2AndASuggestion) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "Usage: callboard"},
      {{"queu-status"}, "did you mean 'queue-status'?"},
      {{"queue-status", "--director.adress=x"}, "did you mean '--director.address'?"},
      {{"queue-status", "-o", "xml"}, "expected: table|json"},
      {{"agents", "agent-1"}, "unexpected argument 'agent-1'"},
      {{"queue-status", "queue-1"}, "'queue-1' is not the id of a task; expected: queue- and 26"},
      {{"queue-cancel", "1"}, "'1' is not the id of a task"},
      {{"explain", "task-1-1"}, "'task-1-1' is not the id of a task"},
      {{"logs", "all"}, "'all' is not the id of a task"},
      {{"watch", "x"}, "'x' is not the id of a task"},
      {{"db", "get", "x"}, "'x' is not the id of a task; expected: queue- and 26"},
      {{"version", "queue-status"}, "unexpected argument 'queue-status'"},
      {{"-o", "json", "dev"}, "put flags after `dev`"},
      {{"completion", "tcsh"}, "bash,zsh,fish"},
      {{"db"}, "Usage: callboard db"},
      {{"db", "verfy"}, "did you mean 'verify'?"},
      {{"db", "export", "--skip_damage"}, "did you mean '--skip_damaged'?"},
      {{"db", "verify", "stats"}, "unexpected argument 'stats'"},
      {{"trigger"}, "job is required"},
      {{"trigger", ""}, "it is empty"},
      {{"pause", ""}, "it is empty"},
      {{"pause", "--until=2026-03-29"}, "--until: needs a job"},
      {{"pause", "nightly", "--until=soon"}, "--until: 'soon' is not valid; expected: 2026-03-29T"},
      {{"preview"}, "name a job, or give a schedule"},
      {{"preview", "nightly", "--limit=1001"}, "--limit"},
      {{"preview", "--schedule=@daily", "nightly"}, "a job has its own schedule"},
      {{"backfill", "nightly", "--until=2026-03-29"}, "--from is required"},
      {{"dev", "--queue.max_sise=5"}, "did you mean 'queue.max_size'?"},
      {{"dev", "--grpc.listen=0.0.0.0:7070"}, "other machines; use 127.0.0.1:7070"},
      {{"dev", "--scheduler.http.listen=0.0.0.0:1"}, "scheduler.http.listen: '0.0.0.0:1'"},
      {{"dev", "--lease.redispatch_after=1s", absl::StrCat("--data_dir=", testing::TempDir())},
       "set it to 1m5s or more"},
  };
  for (const auto& [arguments, advice] : cases) {
    const ProcessResult ended = RunCallboard(arguments);
    EXPECT_EQ(ended.exit_code, 2) << advice;
    EXPECT_THAT(ended.output, HasSubstr(advice));
  }
}

TEST(CliTest, LastValueOfAFlagWins) {
  EXPECT_EQ(RunCallboard({"version", "-o", "json", "-o", "table"}).output, "callboard 0.1.0\n");
}

TEST(CliTest, PrintConfigShowsWhereEachSettingComesFrom) {
  std::vector<std::string> command =
      Command({"queue-status", "--print_config", "--director.address=10.0.0.1:7070"});
  command.insert(command.begin(), {"/usr/bin/env", "CALLBOARD_OUTPUT=json"});
  const ProcessResult ended = RunToEnd(command);
  EXPECT_THAT(ended.exit_code, Optional(0));
  EXPECT_THAT(ended.output, AllOf(HasSubstr("director.address = 10.0.0.1:7070  # flag\n"),
                                  HasSubstr("output = json  # environment CALLBOARD_OUTPUT\n"),
                                  HasSubstr("timeout = 10s  # default\n")));
}

TEST(CliTest, UnreachableDirectorExitsWith5) {
  const ProcessResult ended = RunCallboard({"queue-status", "--director.address=127.0.0.1:1"});
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_THAT(ended.output, StartsWith("Error: no director answers at 127.0.0.1:1 "));
}

TEST(CliTest, UnreachableSchedulerExitsWith5) {
  const std::vector<std::string> commands[] = {
      {"jobs"},
      {"jobs", "nightly"},
      {"trigger", "nightly", "--force"},
      {"preview", "--schedule=0 9 * * MON,FRI", "--schedule", "@monthly", "--seconds"},
      {"backfill", "nightly", "--from=2026-03-28", "--until=2026-03-29T02:30:00Z", "--dry_run"},
      {"pause", "nightly", "--why=the disk is full", "--until", "2026-04-01"},
      {"resume", "nightly"},
  };
  for (std::vector<std::string> command : commands) {
    command.push_back("--scheduler.address=127.0.0.1:1");
    const ProcessResult ended = RunCallboard(command);
    EXPECT_EQ(ended.exit_code, 5) << command.front();
    EXPECT_THAT(ended.output, StartsWith("Error: no scheduler answers at 127.0.0.1:1 "));
  }
}

TEST(CliTest, QueueIsPausedAndResumed) {
  RunningServer director("services/director/callboard-director");
  const std::string address = absl::StrCat("--director.address=", director.grpc_address());
  EXPECT_THAT(RunCallboard({"pause", "--why=upgrade", address}).output,
              StartsWith("queue      paused"));
  EXPECT_THAT(RunCallboard({"resume", "-o", "json", address}).output,
              HasSubstr("\"paused\":false"));
}

TEST(CliTest, QueueStatusIsATableOrOneJsonDocument) {
  RunningServer director("services/director/callboard-director", {"--queue.max_size=7"});
  const std::string address = absl::StrCat("--director.address=", director.grpc_address());
  const ProcessResult table = RunCallboard({"queue-status", address});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.output, HasSubstr("pending    0 of 7, when full: reject\n"));
  EXPECT_THAT(RunCallboard({address, "-o", "json", "queue-status"}).output,
              StartsWith("{\"depth\":0,\"max_size\":7,"));
}

TEST(CliTest, SubmitSetsRetryRules) {
  RunningServer director("services/director/callboard-director");
  const std::string address = absl::StrCat("--director.address=", director.grpc_address());
  EXPECT_THAT(RunCallboard({"queue", address, "-o", "json", "--max_attempts=2", "--retry_on",
                            "exit:3,timeout", "--retry_on=signal:SIGSEGV", "the prompt"})
                  .output,
              AllOf(HasSubstr("\"prompt\":\"the prompt\""),
                    HasSubstr("\"max_attempts\":2,"
                              "\"retry_on\":[\"exit:3\",\"timeout\",\"signal:SIGSEGV\"]")));
  EXPECT_THAT(RunCallboard({"queue", address, "--retry_on=sometimes", "x"}).exit_code, Optional(1));
}

TEST(CliTest, EveryFlagOfASubmitReachesTheTask) {
  RunningServer director("services/director/callboard-director");
  EXPECT_THAT(RunCallboard({"queue", "--director.address=" + director.grpc_address(), "-o", "json",
                            "--model=m", "--timeout_seconds=7", "--session_id=s", "--request_id=r",
                            "--lane=l", "x"})
                  .output,
              AllOf(HasSubstr("\"model\":\"m\""), HasSubstr("\"timeout_seconds\":7"),
                    HasSubstr("\"session_id\":\"s\""), HasSubstr("\"request_id\":\"r\""),
                    HasSubstr("\"lane\":\"l\""), HasSubstr("\"source\":\"cli\"")));
}

TEST(CliTest, TaskJoinsTheTraceOfItsSubmitter) {
  RunningServer director("services/director/callboard-director");
  const std::string address = absl::StrCat("--director.address=", director.grpc_address());
  const std::string trace_id = "0af7651916cd43dd8448eb211c80319c";
  const auto submit = [&address](const std::string& traceparent) {
    std::vector<std::string> command = Command({"queue", address, "-o", "json", "echo"});
    command.insert(command.begin(), {"/usr/bin/env", "TRACEPARENT=" + traceparent});
    return RunToEnd(command).output;
  };
  const std::string joined = submit(absl::StrCat("00-", trace_id, "-b7ad6b7169203331-01"));
  EXPECT_THAT(joined, HasSubstr(absl::StrCat("\"trace_id\":\"", trace_id, "\"")));
  const size_t begin = joined.find("queue-");
  EXPECT_THAT(RunCallboard({"queue-status", address, joined.substr(begin, 32)}).output,
              HasSubstr(absl::StrCat("\ntrace      ", trace_id, "\n")));
  // A span id of zeros is invalid.
  const std::string alone = submit(absl::StrCat("00-", trace_id, "-0000000000000000-01"));
  EXPECT_THAT(alone, AllOf(HasSubstr("\"state\":\"pending\""), HasSubstr("\"trace_id\":\""),
                           Not(HasSubstr(trace_id))));
}

TEST(DevTest, RunsFourServersAndWritesTheirPorts) {
  const std::string path = absl::StrCat(testing::TempDir(), "/dev-ports.json");
  RunningDev dev({absl::StrCat("--port_file=", path), "--queue.max_size=5"});
  const std::string ports = FileText(path);
  for (const char* name : {"{\"grpc\":", "\"scheduler\":{", "\"agent-1\":{", "\"agent-2\":{"}) {
    EXPECT_THAT(ports, HasSubstr(name));
  }
  EXPECT_THAT(RunCallboard({"queue-status", dev.AddressFlag()}).output,
              HasSubstr("pending    0 of 5"));
  const std::vector<std::string> listening = ListeningLines(dev.process().Output());
  EXPECT_EQ(listening.size(), 4u);
  for (const std::string& line : listening) {
    const std::string http = FieldOf(line, "http");
    const auto port = static_cast<uint16_t>(std::stoi(http.substr(http.rfind(':') + 1)));
    EXPECT_EQ(HttpGet(port, "/readyz").status, 200);
  }
}

TEST(DevTest, DataFolderIsPrivateToItsOwner) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/made-by-dev");
  RunningDev dev({absl::StrCat("--data_dir=", folder)});
  struct stat status;
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST(DevTest, TasksAreSubmittedFollowedAndCancelledFromTheCommandLine) {
  RunningDev dev;
  const auto run = [&dev](std::vector<std::string> arguments) {
    arguments.push_back(dev.AddressFlag());
    return RunCallboard(arguments);
  };
  const ProcessResult queued = run({"queue", "echo hello"});
  EXPECT_THAT(queued.exit_code, Optional(0)) << queued.output;
  EXPECT_THAT(queued.output, AllOf(StartsWith("queue-"), HasSubstr("  pending, position 1\n")));
  const std::string id = queued.output.substr(0, queued.output.find(' '));
  ProcessResult status = run({"queue-status", id});
  while (!absl::StrContains(status.output, "completed")) status = run({"queue-status", id});
  EXPECT_THAT(status.output, AllOf(HasSubstr("result     \"hello\\n\"\n"),
                                   HasSubstr("runs       1 dispatch, 0 failed attempts of 3 "
                                             "allowed\n")));
  EXPECT_THAT(run({"agents"}).output, AllOf(HasSubstr("agent-1"), HasSubstr("default 0/1")));

  const ProcessResult late = run({"queue", "sleep 1000", "-o", "json"});
  EXPECT_THAT(late.output, HasSubstr("\"state\":\"pending\""));
  const size_t begin = late.output.find("queue-");
  const std::string late_id = late.output.substr(begin, late.output.find('"', begin) - begin);
  EXPECT_THAT(run({"queue-cancel", late_id}).exit_code, Optional(0));
  ProcessResult cancelled = run({"queue-status", late_id});
  while (!absl::StrContains(cancelled.output, "cancelled")) {
    cancelled = run({"queue-status", late_id});
  }
  EXPECT_THAT(run({"explain", late_id}).exit_code, Optional(0));
  EXPECT_THAT(run({"queue-status", "queue-00000000000000000000000001"}).exit_code, Optional(4));
  EXPECT_THAT(run({"queue", "x", "--policy=maybe"}).exit_code, Optional(2));
}

TEST(CliTest, FullQueueHasItsOwnExitCodeAndMessage) {
  RunningServer director("services/director/callboard-director", {"--queue.max_size=1"});
  const std::string address = "--director.address=" + director.grpc_address();
  EXPECT_THAT(RunCallboard({"queue", "first", address}).exit_code, Optional(0));
  const ProcessResult full = RunCallboard({"queue", "second", address});
  EXPECT_THAT(full.exit_code, Optional(3));
  EXPECT_EQ(full.output, "Error: queue is at capacity (1 tasks)\n");
  const ProcessResult waited =
      RunCallboard({"queue", "second", "--policy=block", "--timeout=3s", address});
  EXPECT_THAT(waited.exit_code, Optional(1)) << "the director answers";
  EXPECT_THAT(waited.output,
              MatchesRegex("Error: no answer within 3s; in case it was submitted, retry with "
                           "--request_id=cli/[0-9a-f]{32}\n"));
}

TEST(CliTest, UnansweredSubmitPrintsTheRequestIdForARetry) {
  const auto error_of = [](const std::string& address) {
    return MatchesRegex(absl::StrCat("Error: no director answers at ", address,
                                     " .*; in case it was submitted, retry with "
                                     "--request_id=cli/[0-9a-f]{32}\n"));
  };
  const ProcessResult refused = RunCallboard({"queue", "x", "--director.address=127.0.0.1:1"});
  EXPECT_THAT(refused.exit_code, Optional(5));
  EXPECT_THAT(refused.output, error_of("127.0.0.1:1"));

  RunningServer director("services/director/callboard-director", {"--queue.max_size=1"});
  const std::string address = "--director.address=" + director.grpc_address();
  EXPECT_THAT(RunCallboard({"queue", "first", address}).exit_code, Optional(0));
  TcpProxy proxy(director.grpc_address());
  Process broken(
      Command({"queue", "second", "--policy=block", "--director.address=" + proxy.address()}));
  const std::string waits = "waiting    1 callers";
  while (!absl::StrContains(RunCallboard({"queue-status", address}).output, waits)) {
  }
  proxy.Accept(false);
  proxy.Cut();
  EXPECT_THAT(broken.WaitForExit(absl::Seconds(10)), Optional(5));
  EXPECT_THAT(broken.Output(), error_of(proxy.address()));
}

TEST(DevTest, PartsFindEachOtherOnAnyLoopbackAddress) {
  RunningDev dev({"--grpc.listen=127.0.0.2:0"});
  EXPECT_THAT(dev.AddressFlag(), StartsWith("--director.address=127.0.0.2:"));
  EXPECT_EQ(RunCallboard({"queue-status", dev.AddressFlag()}).exit_code, 0);
}

TEST(DevTest, StopsInOrderOnSigtermInterruptAndHangup) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    RunningDev dev;
    dev.process().Signal(signal);
    EXPECT_THAT(dev.process().WaitForExit(absl::Seconds(2)), Optional(0));
    const std::string output = dev.process().Output();
    const size_t scheduler = output.find("server=stopped service=callboard-scheduler");
    const size_t agent = output.find("server=stopped service=callboard-agent");
    const size_t director = output.find("server=stopped service=callboard-director");
    EXPECT_LT(scheduler, agent);
    EXPECT_LT(agent, director);
    EXPECT_NE(director, std::string::npos);
  }
}

TEST(DevTest, SignalMakesTheLogOfAllMoreDetailed) {
  RunningDev dev;
  dev.process().Signal(SIGUSR1);
  EXPECT_EQ(FieldOf(dev.process().WaitForLine(" log=level "), "level"), "debug");
  dev.process().Signal(SIGUSR2);
  EXPECT_EQ(FieldOf(dev.process().WaitForLine(" log=level "), "level"), "info");
}

TEST(DevTest, SilentCollectorAndOpenStreamsDoNotDelayExit) {
  OtlpCollector silent;
  silent.Hold();
  RunningDev dev({absl::StrCat("--telemetry.otlp_endpoint=", silent.address())});
  std::vector<std::unique_ptr<HeldStream>> streams;
  for (const std::string& line : ListeningLines(dev.process().Output())) {
    streams.push_back(std::make_unique<HeldStream>(FieldOf(line, "grpc")));
  }
  EXPECT_EQ(streams.size(), 4u);
  dev.process().Signal(SIGTERM);
  EXPECT_THAT(dev.process().WaitForExit(absl::Seconds(2)), Optional(0));
}

TEST(DevTest, JournalWriteErrorStopsItInOrder) {
  const std::filesystem::path data_dir = test::NewFolder();
  RunningDev dev({absl::StrCat("--data_dir=", data_dir.string())});
  for (const char* agent : {"agent-1", "agent-2"}) {
    // Blocks the file that follows the journal when it is full.
    std::filesystem::create_directory(data_dir / agent / "journal.new");
  }
  const std::string prompt = "head -c 65536 /dev/zero | tr '\\0' x";
  for (int i = 0; i < 40; ++i) RunCallboard({"queue", prompt, dev.AddressFlag()});
  EXPECT_THAT(dev.process().WaitForExit(absl::Seconds(60)), Optional(1));
  EXPECT_THAT(dev.process().Output(),
              AllOf(HasSubstr("server=stopped service=callboard-director"),
                    HasSubstr("callboard dev: cannot write " + data_dir.string()),
                    HasSubstr("/journal.new: Is a directory")));
}

TEST(DevTest, TakenPortIsAClearErrorAndStopsAllServers) {
  RunningServer scheduler("services/scheduler/callboard-scheduler");
  const ProcessResult dev = RunToEnd(
      RunningDev::DevCommand({absl::StrCat("--scheduler.grpc.listen=", scheduler.grpc_address())}));
  EXPECT_THAT(dev.exit_code, Optional(1));
  EXPECT_THAT(dev.output, HasSubstr(absl::StrCat("callboard dev: cannot listen on ",
                                                 scheduler.grpc_address())));
}

}  // namespace
}  // namespace callboard
