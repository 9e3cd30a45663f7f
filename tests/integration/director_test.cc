// The director as a process: requests and shutdown.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"

namespace callboard {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckResponse;
using test::HttpConnection;
using test::HttpGet;
using test::RunningServer;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

constexpr char kDirector[] = "services/director/callboard-director";

// The limit that the README promises for SIGTERM.
constexpr absl::Duration kStopsWithin = absl::Seconds(2);

TEST(DirectorTest, ServesQueueStatusOverGrpcAndHttp) {
  RunningServer director(kDirector, {"--queue.max_size=7", "--queue.policy=block"});
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
  EXPECT_THAT(
      HttpGet(director.http_port(), "/metrics").body,
      HasSubstr("callboard_rpc_duration_seconds_count{code=\"OK\",method=\"GetQueueStatus\","
                "service=\"callboard.v1.QueueService\"} 1\n"));
}

TEST(DirectorTest, RemovedDataFolderEndsTheService) {
  const std::filesystem::path folder = test::NewFolder();
  RunningServer director(kDirector, {absl::StrCat("--data_dir=", folder.string())});
  const auto stub = v1::QueueService::NewStub(director.NewChannel());
  const auto submit = [&stub] {
    grpc::ClientContext context;
    v1::SubmitTaskRequest request;
    request.set_prompt("task");
    v1::SubmitTaskResponse response;
    return stub->SubmitTask(&context, request, &response);
  };
  ASSERT_TRUE(submit().ok());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  EXPECT_EQ(submit().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(director.process().WaitForLine(" store=away "), HasSubstr("was removed or replaced"));
  EXPECT_EQ(HttpGet(director.http_port(), "/readyz").status, 503);
  EXPECT_EQ(submit().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(std::filesystem::is_empty(folder)) << "the director must not create an empty store";
}

TEST(DirectorTest, StoreFilesArePrivateToTheirOwner) {
  using std::filesystem::perms;
  const std::filesystem::path folder = test::NewFolder();
  std::filesystem::permissions(folder, perms::owner_all | perms::group_read | perms::group_exec |
                                           perms::others_read | perms::others_exec);
  RunningServer director(kDirector, {absl::StrCat("--data_dir=", folder.string())});
  EXPECT_THAT(director.process().Output(), HasSubstr("mode_before=0755 mode=0750"));
  EXPECT_EQ(std::filesystem::status(folder).permissions() & perms::others_all, perms::none);
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    EXPECT_EQ(entry.status().permissions() & (perms::group_all | perms::others_all), perms::none)
        << entry.path();
    ++files;
  }
  EXPECT_GT(files, 5u);
}

// An open stream of the reflection service under its older name.
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

// Returns the names of a process's threads.
std::vector<std::string> ThreadsOf(pid_t pid) {
  std::vector<std::string> names;
  for (const auto& thread :
       std::filesystem::directory_iterator(absl::StrCat("/proc/", pid, "/task"))) {
    names.push_back(test::FileText(thread.path() / "comm"));
  }
  return names;
}

TEST(DirectorTest, ReactionsRunOnOurOwnThreads) {
  RunningServer director(kDirector);
  const std::vector<std::string> threads = ThreadsOf(director.process().pid());
  EXPECT_THAT(
      threads,
      Contains("reaction\n").Times(std::clamp(std::thread::hardware_concurrency() / 2, 2u, 16u)));
  EXPECT_THAT(threads, Not(Contains("nexting_thread\n")));
}

TEST(DirectorTest, ManyHeldCallsDoNotBlockAnswersOrShutdown) {
  RunningServer director(kDirector);
  std::vector<std::unique_ptr<HttpConnection>> connections;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<HealthCheckResponse>>> watches;
  std::vector<std::unique_ptr<HeldReflection>> reflections;
  const std::shared_ptr<grpc::Channel> channel = director.NewChannel();
  const auto stub = Health::NewStub(channel);
  for (int i = 0; i < 64; ++i) {
    connections.push_back(std::make_unique<HttpConnection>(director.http_port()));
    connections.back()->Send("GET /status HTTP/1.1\r\nHost: localhost\r\n");  // Without its end.
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(stub->Watch(contexts.back().get(), {}));
    HealthCheckResponse first;
    ASSERT_TRUE(watches.back()->Read(&first));
    EXPECT_EQ(first.status(), HealthCheckResponse::SERVING);
    reflections.push_back(std::make_unique<HeldReflection>(channel));
  }
  EXPECT_EQ(director.Health(""), "SERVING");
  EXPECT_EQ(HttpGet(director.http_port(), "/readyz").status, 200);

  director.process().Signal(SIGTERM);
  EXPECT_THAT(director.process().WaitForExit(kStopsWithin), Optional(0));
  for (auto& watch : watches) {
    HealthCheckResponse last;
    while (watch->Read(&last)) EXPECT_EQ(last.status(), HealthCheckResponse::NOT_SERVING);
    watch->Finish();
  }
}

}  // namespace
}  // namespace callboard
