// The director as a process: started, asked, stopped.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <future>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"

namespace callboard {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using test::BuiltBinary;
using test::FieldOf;
using test::HttpConnection;
using test::HttpGet;
using test::Process;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Optional;
using ::testing::StartsWith;

// What the README promises of a SIGTERM.
constexpr absl::Duration kStopsWithin = absl::Seconds(2);

std::vector<std::string> DirectorArguments(std::vector<std::string> flags) {
  flags.insert(flags.begin(), BuiltBinary("services/director/callboard-director"));
  return flags;
}

// A director on free ports.
class RunningDirector {
 public:
  explicit RunningDirector(std::vector<std::string> flags = {})
      : process_([&] {
          flags.push_back("--grpc.listen=127.0.0.1:0");
          flags.push_back("--http.listen=127.0.0.1:0");
          return DirectorArguments(std::move(flags));
        }()) {
    const std::string line = process_.WaitForLine("server=listening");
    grpc_address_ = FieldOf(line, "grpc");
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(FieldOf(line, "http").substr(strlen("127.0.0.1:")), &port));
    http_port_ = static_cast<uint16_t>(port);
  }

  Process& process() { return process_; }
  const std::string& grpc_address() const { return grpc_address_; }
  uint16_t http_port() const { return http_port_; }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    return grpc::CreateChannel(grpc_address_, grpc::InsecureChannelCredentials());
  }

 private:
  Process process_;
  std::string grpc_address_;
  uint16_t http_port_ = 0;
};

HealthCheckResponse::ServingStatus HealthOf(const RunningDirector& director,
                                            const std::string& service) {
  grpc::ClientContext context;
  // "At once" is well below this.
  context.set_deadline(gpr_time_from_seconds(5, GPR_TIMESPAN));
  HealthCheckRequest request;
  HealthCheckResponse response;
  request.set_service(service);
  const grpc::Status status =
      Health::NewStub(director.NewChannel())->Check(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status();
}

TEST(DirectorTest, AnswersTheQueuesStatusOverGrpcAndHttp) {
  RunningDirector director({"--queue.max_size=7", "--queue.policy=block"});
  grpc::ClientContext context;
  v1::QueueStatus response;
  const grpc::Status status =
      v1::QueueService::NewStub(director.NewChannel())->GetQueueStatus(&context, {}, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.max_size(), 7u);
  EXPECT_EQ(response.policy(), v1::QUEUE_POLICY_BLOCK);
  EXPECT_EQ(response.depth(), 0u);

  const test::HttpAnswer page = HttpGet(director.http_port(), "/status");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.body, HasSubstr(R"("queue":{"depth":0,"max_size":7,"policy":"block")"));
}

TEST(DirectorTest, IsHealthyAsAWholeAndByService) {
  RunningDirector director;
  EXPECT_EQ(HealthOf(director, ""), HealthCheckResponse::SERVING);
  EXPECT_EQ(HealthOf(director, "callboard.v1.QueueService"), HealthCheckResponse::SERVING);
  EXPECT_EQ(HttpGet(director.http_port(), "/livez").status, 200);
  EXPECT_EQ(HttpGet(director.http_port(), "/readyz").body, "ready\n");
  EXPECT_THAT(HttpGet(director.http_port(), "/metrics").body,
              HasSubstr("callboard_build_info{service=\"callboard-director\",version="));
}

// An open stream of the reflection service, which is gRPC's own and has no callback API inside.
class HeldReflection final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Returns once the server has answered the first message.
  explicit HeldReflection(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
    stub_.PrepareBidiStreamingCall(
        &context_, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {}, this);
    // ServerReflectionRequest{list_services: "*"}
    grpc::Slice list_services("\x3a\x01*", 3);
    request_ = grpc::ByteBuffer(&list_services, 1);
    StartWrite(&request_);
    StartRead(&response_);
    StartCall();
    EXPECT_TRUE(answered_.get_future().get());
  }
  ~HeldReflection() override {
    context_.TryCancel();
    ended_.get_future().wait();
  }

 private:
  void OnReadDone(bool ok) override { answered_.set_value(ok); }
  void OnDone(const grpc::Status&) override { ended_.set_value(); }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::promise<bool> answered_;
  std::promise<void> ended_;
};

TEST(DirectorTest, SixtyFourHeldCallsOfEachKindLeaveItAnsweringAndStopping) {
  RunningDirector director;
  std::vector<std::unique_ptr<HttpConnection>> connections;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  std::vector<std::unique_ptr<HeldReflection>> reflections;
  const std::shared_ptr<grpc::Channel> channel = director.NewChannel();
  const auto stub = Health::NewStub(channel);
  for (int i = 0; i < 64; ++i) {
    connections.push_back(std::make_unique<HttpConnection>(director.http_port()));
    connections.back()->Send("GET /status HTTP/1.1\r\nHost: localhost\r\n");  // And no end to it.
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(stub->Watch(contexts.back().get(), {}));
    HealthCheckResponse first;
    ASSERT_TRUE(watches.back()->Read(&first));
    EXPECT_EQ(first.status(), HealthCheckResponse::SERVING);
    reflections.push_back(std::make_unique<HeldReflection>(channel));
  }
  EXPECT_EQ(HealthOf(director, ""), HealthCheckResponse::SERVING);
  EXPECT_EQ(HttpGet(director.http_port(), "/readyz").status, 200);

  director.process().Signal(SIGTERM);
  EXPECT_THAT(director.process().WaitForExit(kStopsWithin), Optional(0));
  for (auto& watch : watches) {
    HealthCheckResponse last;
    while (watch->Read(&last)) EXPECT_EQ(last.status(), HealthCheckResponse::NOT_SERVING);
    watch->Finish();
  }
}

TEST(DirectorTest, StopsInOrderOnEitherSignal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    RunningDirector director;
    director.process().Signal(signal);
    EXPECT_THAT(director.process().WaitForExit(kStopsWithin), Optional(0));
    const std::string output = director.process().Output();
    EXPECT_LT(output.find("server=draining"), output.find("server=stopped"));
  }
}

TEST(DirectorTest, PortFileHoldsTheChosenPortsOnceTheyAreOpen) {
  const std::string path = absl::StrCat(testing::TempDir(), "/ports.json");
  RunningDirector director({absl::StrCat("--port_file=", path)});
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(),
            absl::StrCat("{\"grpc\":", director.grpc_address().substr(strlen("127.0.0.1:")),
                         ",\"http\":", director.http_port(), "}\n"));
}

TEST(DirectorTest, TakenPortIsAClearErrorAndNotShared) {
  RunningDirector first;
  Process same_grpc(DirectorArguments(
      {absl::StrCat("--grpc.listen=", first.grpc_address()), "--http.listen=127.0.0.1:0"}));
  EXPECT_THAT(same_grpc.WaitForExit(absl::Minutes(1)), Optional(1));
  EXPECT_THAT(same_grpc.Output(),
              HasSubstr(absl::StrCat("cannot listen on ", first.grpc_address())));
  Process same_http(DirectorArguments(
      {"--grpc.listen=127.0.0.1:0", absl::StrCat("--http.listen=127.0.0.1:", first.http_port())}));
  EXPECT_THAT(same_http.WaitForExit(absl::Minutes(1)), Optional(1));
  EXPECT_THAT(same_http.Output(), HasSubstr("Address already in use"));
}

TEST(DirectorTest, BadSettingsEndItWithTwoAndSayWhatToDo) {
  const std::pair<std::string, std::string> cases[] = {
      {"--grpc.listen=0.0.0.0:7070", "--insecure_listen"},
      {"--http.listen=[::]:8080", "--http.listen=127.0.0.1:8080"},
      {"--queue.max_sise=5", "did you mean 'queue.max_size'?"},
      {"--queue.max_size=many", "wanted: 0..10000000"},
      {"--port_file=/nowhere/ports.json", "port_file: cannot write"},
  };
  for (const auto& [flag, advice] : cases) {
    Process process(
        DirectorArguments({"--grpc.listen=127.0.0.1:0", "--http.listen=127.0.0.1:0", flag}));
    EXPECT_THAT(process.WaitForExit(absl::Minutes(1)), Optional(2)) << flag;
    EXPECT_THAT(process.Output(), AllOf(HasSubstr("callboard-director: "), HasSubstr(advice)));
  }
}

TEST(DirectorTest, PrintConfigShowsTheFourOrigins) {
  const std::string path = absl::StrCat(testing::TempDir(), "/callboard.yaml");
  std::ofstream(path) << "log:\n  level: warning\n";
  Process process({"/usr/bin/env", "CALLBOARD_QUEUE_POLICY=block",
                   BuiltBinary("services/director/callboard-director"), "--print_config",
                   absl::StrCat("--config=", path), "--queue.max_size=7"});
  EXPECT_THAT(process.WaitForExit(absl::Minutes(1)), Optional(0));
  EXPECT_THAT(process.Output(),
              AllOf(HasSubstr("queue.max_size = 7  # flag\n"),
                    HasSubstr(absl::StrCat("log.level = warning  # file ", path, ":2\n")),
                    HasSubstr("queue.policy = block  # environment CALLBOARD_QUEUE_POLICY\n"),
                    HasSubstr("queue.max_attempts = 3  # default\n")));
}

TEST(DirectorTest, InsecureListenIsTakenAndLoudAtEveryLogLevel) {
  Process process(DirectorArguments({"--insecure_listen", "--grpc.listen=0.0.0.0:0",
                                     "--http.listen=127.0.0.1:0", "--log.level=error"}));
  EXPECT_THAT(process.WaitForLine("insecure_listen"), HasSubstr("may run anything"));
}

TEST(DirectorTest, HelpAndVersionGoToStandardOutputAndSucceed) {
  Process help(DirectorArguments({"--help"}));
  EXPECT_THAT(help.WaitForExit(absl::Minutes(1)), Optional(0));
  EXPECT_THAT(help.Output(), AllOf(HasSubstr("Examples:"), HasSubstr("--queue.max_size")));
  Process version(DirectorArguments({"--version"}));
  EXPECT_THAT(version.WaitForExit(absl::Minutes(1)), Optional(0));
  EXPECT_THAT(version.Output(), StartsWith("callboard-director 0.1.0"));
}

TEST(DirectorTest, JsonLogsAreJson) {
  Process process(DirectorArguments(
      {"--log.format=json", "--grpc.listen=127.0.0.1:0", "--http.listen=127.0.0.1:0"}));
  EXPECT_THAT(process.WaitForLine("\"server\":\"listening\""), StartsWith("{\"time\":\""));
}

}  // namespace
}  // namespace callboard
