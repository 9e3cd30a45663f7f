// Behavior of all servers: start, status, settings errors, shutdown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"

namespace callboard {
namespace {

using test::FieldOf;
using test::FileText;
using test::HeldStream;
using test::HttpGet;
using test::OtlpCollector;
using test::Process;
using test::ProcessResult;
using test::ReceivedSpan;
using test::RunningServer;
using test::RunToEnd;
using test::ServerCommand;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;
using ::testing::StartsWith;

// The limit that the README promises for SIGTERM.
constexpr absl::Duration kStopsWithin = absl::Seconds(2);

struct Server {
  std::string name;
  std::string binary;
  std::string service;
};

class ServerTest : public ::testing::TestWithParam<Server> {
 protected:
  const std::string& binary() const { return GetParam().binary; }
};

INSTANTIATE_TEST_SUITE_P(
    Servers, ServerTest,
    ::testing::Values(
        Server{"director", "services/director/callboard-director", "callboard.v1.QueueService"},
        Server{"agent", "services/agent/callboard-agent", "callboard.v1.AgentService"},
        Server{"scheduler", "services/scheduler/callboard-scheduler",
               "callboard.v1.SchedulerService"}),
    [](const auto& info) { return info.param.name; });

TEST_P(ServerTest, HealthCoversServerAndServices) {
  RunningServer server(binary());
  EXPECT_EQ(server.Health(""), "SERVING");
  EXPECT_EQ(server.Health(GetParam().service), "SERVING");
  EXPECT_EQ(HttpGet(server.http_port(), "/livez").status, 200);
  EXPECT_EQ(HttpGet(server.http_port(), "/readyz").body, "ready\n");
  EXPECT_THAT(HttpGet(server.http_port(), "/status").body, StartsWith(R"({"type":"view",)"));
  EXPECT_THAT(HttpGet(server.http_port(), "/metrics").body,
              HasSubstr(absl::StrCat("callboard_build_info{service=\"callboard-", GetParam().name,
                                     "\",version=")));
}

TEST_P(ServerTest, StopsOnSigtermAndSigint) {
  for (const int signal : {SIGTERM, SIGINT}) {
    RunningServer server(binary());
    server.process().Signal(signal);
    EXPECT_THAT(server.process().WaitForExit(kStopsWithin), Optional(0));
    const std::string output = server.process().Output();
    EXPECT_LT(output.find("server=draining"), output.find("server=stopped"));
  }
}

TEST_P(ServerTest, SighupDoesNotStopIt) {
  RunningServer server(binary());
  server.process().Signal(SIGHUP);
  server.process().Signal(SIGHUP);
  // An idle server would have stopped by then.
  ASSERT_EQ(server.process().WaitForExit(absl::Milliseconds(500)), std::nullopt);
  EXPECT_EQ(HttpGet(server.http_port(), "/readyz").status, 200);
  server.process().Signal(SIGTERM);
  EXPECT_THAT(server.process().WaitForExit(absl::Seconds(10)), Optional(0));
}

TEST_P(ServerTest, IsNotReadyWhileCallsFinish) {
  RunningServer server(binary());
  const HeldStream stream(server.grpc_address());
  server.process().Signal(SIGTERM);
  server.process().WaitForLine("server=draining");
  EXPECT_EQ(HttpGet(server.http_port(), "/readyz").status, 503);
  EXPECT_EQ(HttpGet(server.http_port(), "/livez").status, 200);
}

TEST_P(ServerTest, PortFileHasTheOpenPorts) {
  const std::string path = absl::StrCat(testing::TempDir(), "/ports.json");
  RunningServer server(binary(), {absl::StrCat("--port_file=", path)});
  EXPECT_EQ(FileText(path), absl::StrCat("{\"grpc\":", server.grpc_port(),
                                         ",\"http\":", server.http_port(), "}\n"));
}

TEST_P(ServerTest, TakenPortIsAClearError) {
  RunningServer first(binary());
  const ProcessResult same_grpc =
      RunToEnd(ServerCommand(binary(), {absl::StrCat("--grpc.listen=", first.grpc_address())}));
  EXPECT_THAT(same_grpc.exit_code, Optional(1));
  EXPECT_THAT(same_grpc.output, HasSubstr(absl::StrCat("cannot listen on ", first.grpc_address())));
  const ProcessResult same_http = RunToEnd(
      ServerCommand(binary(), {absl::StrCat("--http.listen=127.0.0.1:", first.http_port())}));
  EXPECT_THAT(same_http.exit_code, Optional(1));
  EXPECT_THAT(same_http.output, HasSubstr("Address already in use"));
}

TEST_P(ServerTest, InvalidSettingsExitWith2AndANextStep) {
  const std::pair<std::string, std::string> cases[] = {
      {"--grpc.listen=0.0.0.0:7070", "--insecure_listen"},
      {"--http.listen=[::]:8080", "--http.listen=127.0.0.1:8080"},
      {"--log.levle=info", "did you mean 'log.level'?"},
      {"--log.level=loud", "expected: debug|info|warning|error"},
      {"--telemetry.otlp_endpoint=127.0.0.1:otlp",
       "telemetry.otlp_endpoint: '127.0.0.1:otlp' is not an address"},
      {"--port_file=/nowhere/ports.json", "port_file: cannot write"},
      {"--data_dir=/proc/nothing", "data_dir: cannot make the folder '/proc/nothing'"},
  };
  for (const auto& [flag, advice] : cases) {
    const ProcessResult ended = RunToEnd(ServerCommand(binary(), {flag}));
    EXPECT_THAT(ended.exit_code, Optional(2)) << flag;
    EXPECT_THAT(ended.output, AllOf(HasSubstr(absl::StrCat("callboard-", GetParam().name, ": ")),
                                    HasSubstr(advice)));
  }
}

TEST_P(ServerTest, PrintConfigShowsTheFourOrigins) {
  const std::string path = absl::StrCat(testing::TempDir(), "/callboard.yaml");
  std::ofstream(path) << "log:\n  level: warning\n";
  std::vector<std::string> command = ServerCommand(
      binary(), {"--print_config", absl::StrCat("--config=", path), "--port_file=ports.json"});
  command.insert(command.begin(), {"/usr/bin/env", "CALLBOARD_LOG_FORMAT=json"});
  const ProcessResult ended = RunToEnd(command);
  EXPECT_THAT(ended.exit_code, Optional(0));
  EXPECT_THAT(ended.output,
              AllOf(HasSubstr("port_file = ports.json  # flag\n"),
                    HasSubstr(absl::StrCat("log.level = warning  # file ", path, ":2\n")),
                    HasSubstr("log.format = json  # environment CALLBOARD_LOG_FORMAT\n"),
                    HasSubstr("insecure_listen = false  # default\n")));
}

TEST_P(ServerTest, InsecureListenIsAlwaysLogged) {
  Process process(ServerCommand(
      binary(), {"--insecure_listen", "--grpc.listen=0.0.0.0:0", "--log.level=error"}));
  EXPECT_THAT(process.WaitForLine("insecure_listen"), HasSubstr("can run commands"));
}

TEST_P(ServerTest, DataFolderIsPrivateToItsOwner) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/", GetParam().name, "/data");
  RunningServer server(binary(), {absl::StrCat("--data_dir=", folder)});
  struct stat status;
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
}

TEST_P(ServerTest, SpansReachTheCollectorBeforeItEnds) {
  OtlpCollector collector;
  RunningServer server(binary(), {absl::StrCat("--telemetry.otlp_endpoint=", collector.address())});
  server.process().Signal(SIGTERM);
  EXPECT_THAT(server.process().WaitForExit(kStopsWithin), Optional(0));
  const std::vector<ReceivedSpan> spans = collector.WaitForSpans(1, absl::ZeroDuration());
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].span.name(), "server.start");
  EXPECT_EQ(spans[0].resource.at("service.name"), absl::StrCat("callboard-", GetParam().name));
}

TEST_P(ServerTest, CollectorsAndOpenStreamsDoNotDelayExit) {
  OtlpCollector silent;
  silent.Hold();
  for (const std::string& address : {silent.address(), std::string("127.0.0.1:1")}) {
    RunningServer server(binary(), {absl::StrCat("--telemetry.otlp_endpoint=", address)});
    const HeldStream stream(server.grpc_address());
    server.process().Signal(SIGTERM);
    EXPECT_THAT(server.process().WaitForExit(kStopsWithin), Optional(0));
  }
}

TEST_P(ServerTest, SignalsChangeTheLogLevel) {
  RunningServer server(binary());
  const std::pair<int, std::string> steps[] = {
      {SIGUSR1, "debug"},   {SIGUSR1, "debug"}, {SIGUSR2, "info"},
      {SIGUSR2, "warning"}, {SIGUSR2, "error"}, {SIGUSR2, "error"},
  };
  for (const auto& [signal, level] : steps) {
    server.process().Signal(signal);
    EXPECT_EQ(FieldOf(server.process().WaitForLine(" log=level "), "level"), level);
  }
  EXPECT_EQ(server.Health(""), "SERVING");
  server.process().Signal(SIGTERM);
  EXPECT_THAT(server.process().WaitForExit(kStopsWithin), Optional(0));
  EXPECT_THAT(server.process().Output(), Not(HasSubstr("server=stopped")));
}

TEST_P(ServerTest, HelpAndVersionSucceed) {
  const ProcessResult help = RunToEnd(ServerCommand(binary(), {"--help"}));
  EXPECT_THAT(help.exit_code, Optional(0));
  EXPECT_THAT(help.output, AllOf(HasSubstr("Examples:"), HasSubstr("--grpc.listen")));
  const ProcessResult version = RunToEnd(ServerCommand(binary(), {"--version"}));
  EXPECT_THAT(version.exit_code, Optional(0));
  EXPECT_THAT(version.output, StartsWith(absl::StrCat("callboard-", GetParam().name, " 0.1.0")));
}

TEST_P(ServerTest, JsonLogsAreJson) {
  Process process(ServerCommand(binary(), {"--log.format=json"}));
  EXPECT_THAT(process.WaitForLine("\"server\":\"listening\""), StartsWith("{\"time\":\""));
}

}  // namespace
}  // namespace callboard
