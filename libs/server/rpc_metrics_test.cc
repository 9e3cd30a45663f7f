#include "libs/telemetry/rpc_metrics.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <future>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/server/call.h"
#include "libs/server/grpc_server.h"
#include "libs/testing/fake_environment.h"
#include "probe.grpc.pb.h"

namespace callboard::server {
namespace {

using test::FakeClock;
using test::v1::ProbeRequest;
using test::v1::ProbeResponse;
using test::v1::ProbeService;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Answers each call after 20 ms of the fake clock. The name of the request selects the answer:
// `full` is an error, and `hold` leaves the call open.
class TimedProbeService final : public ProbeService::CallbackService {
 public:
  explicit TimedProbeService(FakeClock& clock) : clock_(clock) {}

  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context, const ProbeRequest* request,
                                 ProbeResponse* response) override {
    return Unary(context, response, [&](UnaryCall<ProbeResponse> call) {
      clock_.Advance(absl::Milliseconds(20));
      if (request->name() == "hold") return held_.set_value();
      if (request->name() == "full") return call.Finish(absl::ResourceExhaustedError("full"));
      call.Finish(ProbeResponse());
    });
  }
  grpc::ServerWriteReactor<ProbeResponse>* HoldStream(grpc::CallbackServerContext* context,
                                                      const ProbeRequest*) override {
    return Stream<ProbeResponse>(
        context, [&](StreamCall<ProbeResponse> call) { held_stream_.set_value(call); });
  }

  void WaitForHeldCall() { held_.get_future().wait(); }
  StreamCall<ProbeResponse> WaitForStream() { return held_stream_.get_future().get(); }

 private:
  FakeClock& clock_;
  std::promise<void> held_;
  std::promise<StreamCall<ProbeResponse>> held_stream_;
};

class RpcMetricsTest : public ::testing::Test {
 protected:
  RpcMetricsTest() {
    auto server = GrpcServer::Start(
        {.listen = {.host = "127.0.0.1"}, .metrics = &registry_, .clock = &clock_},
        {{ProbeService::service_full_name(), &service_}});
    CHECK_OK(server.status());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = ProbeService::NewStub(channel_);
  }

  grpc::Status Hold(const std::string& name) {
    grpc::ClientContext context;
    ProbeRequest request;
    ProbeResponse response;
    request.set_name(name);
    return stub_->Hold(&context, request, &response);
  }

  // Returns the lines of /metrics of the series with this name.
  std::vector<std::string> Lines(const std::string& series) {
    std::vector<std::string> lines;
    const std::string page = prometheus::TextSerializer().Serialize(registry_.Collect());
    for (const absl::string_view line : absl::StrSplit(page, '\n')) {
      if (absl::StartsWith(line, series + "{")) lines.emplace_back(line);
    }
    return lines;
  }
  std::vector<std::string> DurationCounts() {
    return Lines("callboard_rpc_duration_seconds_count");
  }

  FakeClock clock_;
  prometheus::Registry registry_;
  TimedProbeService service_{clock_};
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ProbeService::Stub> stub_;
};

// Returns the line `callboard_rpc_<name>{…} <value>` for a method of the probe service.
std::string Line(const std::string& name, const std::string& method, const std::string& code,
                 const std::string& value) {
  return absl::StrCat("callboard_rpc_", name, "{",
                      code.empty() ? "" : absl::StrCat("code=\"", code, "\","), "method=\"", method,
                      "\",service=\"callboard.test.v1.ProbeService\"} ", value);
}

TEST_F(RpcMetricsTest, UnaryCallsAreTimedByMethodAndCode) {
  EXPECT_TRUE(Hold("").ok());
  EXPECT_TRUE(Hold("").ok());
  EXPECT_FALSE(Hold("full").ok());
  EXPECT_THAT(
      DurationCounts(),
      UnorderedElementsAre(Line("duration_seconds_count", "Hold", "OK", "2"),
                           Line("duration_seconds_count", "Hold", "RESOURCE_EXHAUSTED", "1")));
  EXPECT_THAT(Lines("callboard_rpc_duration_seconds_sum"),
              Contains(Line("duration_seconds_sum", "Hold", "OK", "0.04")));
}

TEST_F(RpcMetricsTest, CancelledCallIsCounted) {
  grpc::ClientContext context;
  ProbeRequest request;
  request.set_name("hold");
  ProbeResponse response;
  std::promise<void> ended;
  stub_->async()->Hold(&context, &request, &response,
                       [&ended](const grpc::Status&) { ended.set_value(); });
  service_.WaitForHeldCall();
  context.TryCancel();
  ended.get_future().wait();
  // Returns when the server has ended the call too.
  server_->Shutdown(absl::Hours(1));
  EXPECT_THAT(DurationCounts(),
              UnorderedElementsAre(Line("duration_seconds_count", "Hold", "CANCELLED", "1")));
}

TEST_F(RpcMetricsTest, UnservedMethodIsCounted) {
  grpc::ClientContext context;
  ProbeResponse response;
  EXPECT_FALSE(stub_->Refuse(&context, {}, &response).ok());
  EXPECT_THAT(DurationCounts(),
              UnorderedElementsAre(Line("duration_seconds_count", "Refuse", "UNIMPLEMENTED", "1")));
}

TEST_F(RpcMetricsTest, StreamsAreCountedButNotTimed) {
  grpc::ClientContext context;
  auto reader = stub_->HoldStream(&context, {});
  const StreamCall<ProbeResponse> call = service_.WaitForStream();
  EXPECT_THAT(Lines("callboard_rpc_streams_open"),
              UnorderedElementsAre(Line("streams_open", "HoldStream", "", "1")));
  EXPECT_THAT(Lines("callboard_rpc_streams_total"), IsEmpty());

  clock_.Advance(absl::Hours(1));
  call.Finish(absl::AbortedError("enough"));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(Lines("callboard_rpc_streams_open"),
              UnorderedElementsAre(Line("streams_open", "HoldStream", "", "0")));
  EXPECT_THAT(Lines("callboard_rpc_streams_total"),
              UnorderedElementsAre(Line("streams_total", "HoldStream", "ABORTED", "1")));
  EXPECT_THAT(DurationCounts(), IsEmpty());
}

TEST_F(RpcMetricsTest, UnknownMethodIsNotCounted) {
  grpc::TemplatedGenericStub<ProbeRequest, ProbeResponse> stub(channel_);
  for (const char* method : {"/callboard.test.v1.ProbeService/MadeUp1",
                             "/callboard.test.v1.ProbeService/MadeUp2", "/made.Up/Hold"}) {
    grpc::ClientContext context;
    const ProbeRequest request;
    ProbeResponse response;
    std::promise<grpc::Status> ended;
    stub.UnaryCall(&context, method, {}, &request, &response,
                   [&ended](grpc::Status status) { ended.set_value(std::move(status)); });
    EXPECT_EQ(ended.get_future().get().error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
  }
  EXPECT_THAT(DurationCounts(), IsEmpty());
  EXPECT_THAT(Lines("callboard_rpc_streams_open"), IsEmpty());
  EXPECT_THAT(Lines("callboard_rpc_streams_total"), IsEmpty());
}

TEST_F(RpcMetricsTest, HealthChecksAreNotCounted) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  EXPECT_TRUE(grpc::health::v1::Health::NewStub(channel_)->Check(&context, {}, &response).ok());
  EXPECT_THAT(DurationCounts(), IsEmpty());
}

}  // namespace
}  // namespace callboard::server
