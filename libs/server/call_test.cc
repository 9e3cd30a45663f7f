#include "libs/server/call.h"

#include <gmock/gmock.h>
#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/server/grpc_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"
#include "probe.grpc.pb.h"

namespace callboard::server {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using test::v1::ProbeRequest;
using test::v1::ProbeResponse;
using test::v1::ProbeService;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProbeResponse Text(const std::string& text) {
  ProbeResponse response;
  response.set_text(text);
  return response;
}

// Passes the first call of each kind to the test, which answers it.
class HoldingProbeService final : public ProbeService::CallbackService {
 public:
  HoldingProbeService(const UnaryOptions& unary, const StreamOptions& stream)
      : unary_(unary), stream_(stream) {}

  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context, const ProbeRequest*,
                                 ProbeResponse* response) override {
    return Unary(
        context, response, [this](auto call) { call_.set_value(call); }, unary_);
  }
  grpc::ServerWriteReactor<ProbeResponse>* HoldStream(grpc::CallbackServerContext* context,
                                                      const ProbeRequest*) override {
    return Stream<ProbeResponse>(
        context, [this](auto call) { stream_call_.set_value(call); }, stream_);
  }

  UnaryCall<ProbeResponse> WaitForCall() { return call_.get_future().get(); }
  StreamCall<ProbeResponse> WaitForStream() { return stream_call_.get_future().get(); }

 private:
  const UnaryOptions unary_;
  const StreamOptions stream_;
  std::promise<UnaryCall<ProbeResponse>> call_;
  std::promise<StreamCall<ProbeResponse>> stream_call_;
};

class CallTest : public ::testing::Test {
 protected:
  void Start(const UnaryOptions& unary = {}, const StreamOptions& stream = {}) {
    service_ = std::make_unique<HoldingProbeService>(unary, stream);
    auto server = GrpcServer::Start({.listen = {.host = "127.0.0.1"}},
                                    {{ProbeService::service_full_name(), service_.get()}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = ProbeService::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                                      grpc::InsecureChannelCredentials()));
  }

  // Starts a call. The future receives its status.
  std::future<absl::Status> CallHold() {
    auto done = std::make_shared<std::promise<absl::Status>>();
    stub_->async()->Hold(&context_, &request_, &response_, [done](const grpc::Status& status) {
      done->set_value(wire::FromGrpc(status));
    });
    return done->get_future();
  }

  // Returns the status of a call with these bytes as its request.
  absl::Status CallWith(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                               grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    std::promise<absl::Status> end;
    stub.UnaryCall(&context, method, {}, &request, &response,
                   [&end](const grpc::Status& status) { end.set_value(wire::FromGrpc(status)); });
    return end.get_future().get();
  }

  std::unique_ptr<HoldingProbeService> service_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<ProbeService::Stub> stub_;
  grpc::ClientContext context_;
  ProbeRequest request_;
  ProbeResponse response_;
};

TEST_F(CallTest, FirstAnswerIsSentAndLaterOnesAreDropped) {
  Start();
  std::future<absl::Status> end = CallHold();
  const UnaryCall<ProbeResponse> call = service_->WaitForCall();
  call.Finish(Text("first"));
  call.Finish(Text("second"));
  call.Finish(absl::InternalError("third"));
  EXPECT_THAT(end.get(), IsOk());
  EXPECT_EQ(response_.text(), "first");
}

TEST_F(CallTest, ErrorIsSentWithItsDetails) {
  Start();
  std::future<absl::Status> end = CallHold();
  service_->WaitForCall().Finish(
      base::WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL", {{"depth", "50"}}));
  const absl::Status status = end.get();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_THAT(status, HasReason("QUEUE_FULL"));
}

TEST_F(CallTest, UnservedMethodReturnsUnimplementedWithDetails) {
  Start();
  const absl::Status status = wire::FromGrpc(stub_->Refuse(&context_, request_, &response_));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented,
                               HasSubstr("callboard.test.v1.ProbeService/Refuse is not part of")));
  EXPECT_THAT(status, HasReason("UNIMPLEMENTED"));
}

TEST_F(CallTest, UnknownMethodNameIsTruncatedInTheError) {
  Start();
  const absl::Status status = CallWith(absl::StrCat("/made.Up/", std::string(4096, 'x')), "");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("is not part of")));
  EXPECT_LT(status.message().size(), 300u);
}

TEST_F(CallTest, UnparsableRequestIsInvalidArgument) {
  Start();
  for (const char* method : {"Hold", "HoldStream"}) {
    const absl::Status status =
        CallWith(absl::StrCat("/callboard.test.v1.ProbeService/", method), "\x0a\x02\xff\xfe");
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "name is not UTF-8"));
    EXPECT_THAT(status, HasReason("INVALID_FIELD"));
  }
}

TEST_F(CallTest, CompressedRequestIsRejectedBeforeDecompression) {
  Start();
  // Decompressed, it would exceed the size limit and fail with RESOURCE_EXHAUSTED.
  request_.set_name(std::string(64 << 20, 'a'));
  context_.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  EXPECT_THAT(CallHold().get(), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("gzip")));
}

TEST_F(CallTest, CallWithoutADeadlineGetsTheServerDeadline) {
  Start({.deadline_max = absl::Milliseconds(1)});
  std::future<absl::Status> end = CallHold();
  const UnaryCall<ProbeResponse> call = service_->WaitForCall();
  const absl::Status status = end.get();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("within 1ms")));
  EXPECT_THAT(status, HasReason("DEADLINE_EXCEEDED"));
  call.Finish(Text("late answers are dropped"));
}

TEST_F(CallTest, CancelledCallRunsTheHookOnce) {
  Start();
  std::future<absl::Status> end = CallHold();
  const UnaryCall<ProbeResponse> call = service_->WaitForCall();
  std::promise<void> left;
  call.SetAbandonHook([&left] { left.set_value(); });
  context_.TryCancel();
  left.get_future().wait();
  EXPECT_THAT(end.get(), StatusIs(absl::StatusCode::kCancelled));
  call.Finish(Text("late answers are dropped"));
}

TEST_F(CallTest, HookSetAfterTheEndRunsOnlyIfTheCallWasAbandoned) {
  Start();
  std::future<absl::Status> end = CallHold();
  const UnaryCall<ProbeResponse> call = service_->WaitForCall();
  call.Finish(Text("done"));
  call.SetAbandonHook([] { FAIL() << "the call was answered"; });
  EXPECT_THAT(end.get(), IsOk());

  internal::AbandonHook hook;
  hook.End(internal::CallOutcome::kAbandoned);
  bool ran = false;
  hook.Set([&ran] { ran = true; });
  EXPECT_TRUE(ran);
}

// Holds every call until AnswerAll().
class HoldAllProbeService final : public ProbeService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context, const ProbeRequest*,
                                 ProbeResponse* response) override {
    return Unary(context, response, [this](auto call) {
      base::MutexLock lock(mutex_);
      calls_.push_back(call);
      changed_.NotifyAll();
    });
  }

  void WaitFor(size_t count) {
    base::MutexLock lock(mutex_);
    while (calls_.size() < count) changed_.Wait(mutex_);
  }
  void AnswerAll() {
    base::MutexLock lock(mutex_);
    for (const UnaryCall<ProbeResponse>& call : calls_) call.Finish(Text("at last"));
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<UnaryCall<ProbeResponse>> calls_ ABSL_GUARDED_BY(mutex_);
};

TEST(HeldCallsTest, SixtyFourOpenCallsBlockNoThread) {
  HoldAllProbeService service;
  const auto server = GrpcServer::Start({.listen = {.host = "127.0.0.1"}},
                                        {{ProbeService::service_full_name(), &service}});
  ASSERT_THAT(server, IsOk());
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*server)->port()),
                                           grpc::InsecureChannelCredentials());
  struct Outgoing {
    grpc::ClientContext context;
    ProbeRequest request;
    ProbeResponse response;
    std::promise<grpc::Status> ended;
  };
  const auto stub = ProbeService::NewStub(channel);
  std::vector<std::unique_ptr<Outgoing>> calls;
  for (int i = 0; i < 64; ++i) {
    Outgoing& call = *calls.emplace_back(std::make_unique<Outgoing>());
    stub->async()->Hold(&call.context, &call.request, &call.response,
                        [&call](const grpc::Status& status) { call.ended.set_value(status); });
  }
  service.WaitFor(64);

  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_seconds(5, GPR_TIMESPAN));
  grpc::health::v1::HealthCheckResponse health;
  const grpc::Status checked =
      grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &health);
  EXPECT_TRUE(checked.ok()) << checked.error_message();

  service.AnswerAll();
  for (const auto& call : calls) EXPECT_TRUE(call->ended.get_future().get().ok());
}

TEST_F(CallTest, StreamKeepsOrderAndEndsAfterTheLastMessage) {
  Start();
  auto reader = stub_->HoldStream(&context_, request_);
  const StreamCall<ProbeResponse> call = service_->WaitForStream();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(call.Write(Text(absl::StrCat(i))));
  call.Finish(absl::AbortedError("enough"));
  EXPECT_FALSE(call.Write(Text("after the end")));
  std::vector<std::string> texts;
  while (reader->Read(&response_)) texts.push_back(response_.text());
  EXPECT_THAT(texts, ElementsAre("0", "1", "2"));
  EXPECT_THAT(wire::FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST_F(CallTest, SlowReaderIsCutOffWithTheReason) {
  Start({}, {.buffer_max = 2});
  auto reader = stub_->HoldStream(&context_, request_);
  const StreamCall<ProbeResponse> call = service_->WaitForStream();
  std::promise<void> abandoned;
  call.SetAbandonHook([&abandoned] { abandoned.set_value(); });
  // Larger than the read-ahead buffer of gRPC.
  const std::string large(3 << 20, 'x');
  while (call.Write(Text(large))) {
  }
  abandoned.get_future().wait();
  while (reader->Read(&response_)) {
  }
  const absl::Status status = wire::FromGrpc(reader->Finish());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(status, HasReason("SLOW_READER"));
}

TEST_F(CallTest, SentHookRunsWhenAllMessagesAreSent) {
  Start();
  auto reader = stub_->HoldStream(&context_, request_);
  const StreamCall<ProbeResponse> call = service_->WaitForStream();
  int sent = 0;
  call.SetSentHook([&sent, call] {
    if (++sent == 3) return call.Finish(absl::OkStatus());
    EXPECT_TRUE(call.Write(Text(absl::StrCat(sent))));
  });
  EXPECT_TRUE(call.Write(Text("0")));
  std::vector<std::string> texts;
  while (reader->Read(&response_)) texts.push_back(response_.text());
  EXPECT_THAT(texts, ElementsAre("0", "1", "2"));
  EXPECT_THAT(wire::FromGrpc(reader->Finish()), IsOk());
}

TEST_F(CallTest, WriterCanCutOffTheReader) {
  Start();
  auto reader = stub_->HoldStream(&context_, request_);
  const StreamCall<ProbeResponse> call = service_->WaitForStream();
  EXPECT_TRUE(call.Write(Text("0")));
  std::promise<void> abandoned;
  call.SetAbandonHook([&abandoned] { abandoned.set_value(); });
  call.CutOff();
  call.CutOff();
  abandoned.get_future().wait();
  while (reader->Read(&response_)) {
  }
  EXPECT_THAT(wire::FromGrpc(reader->Finish()), HasReason("SLOW_READER"));
}

TEST_F(CallTest, ReaderThatReadsNothingIsCutOffAfterTheGracePeriod) {
  Start({}, {.buffer_max = 2, .slow_reader_grace = absl::Milliseconds(1)});
  auto reader = stub_->HoldStream(&context_, request_);
  const StreamCall<ProbeResponse> call = service_->WaitForStream();
  const std::string large(3 << 20, 'x');
  while (call.Write(Text(large))) {
  }
  // Returns when the call has ended. If it is not cut off, the test times out.
  server_->Shutdown(absl::Hours(1));
  EXPECT_FALSE(call.Write(Text("dropped")));
  context_.TryCancel();
}

TEST_F(CallTest, CancellationByTheReaderEndsTheStream) {
  Start();
  auto reader = stub_->HoldStream(&context_, request_);
  const StreamCall<ProbeResponse> call = service_->WaitForStream();
  std::promise<void> left;
  call.SetAbandonHook([&left] { left.set_value(); });
  context_.TryCancel();
  left.get_future().wait();
  EXPECT_FALSE(call.Write(Text("dropped")));
  EXPECT_THAT(wire::FromGrpc(reader->Finish()), StatusIs(absl::StatusCode::kCancelled));
}

// ---- The server ---------------------------------------------------------------------------------

TEST(GrpcServerTest, OldConnectionsAreClosedUnlessAgeIsUnlimited) {
  const auto start = [](absl::Duration connection_age_max) {
    return *GrpcServer::Start(
        {.listen = {.host = "127.0.0.1"}, .connection_age_max = connection_age_max}, {});
  };
  const auto connect = [](const GrpcServer& server) {
    auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server.port()),
                                       grpc::InsecureChannelCredentials());
    EXPECT_TRUE(channel->WaitForConnected(gpr_inf_future(GPR_CLOCK_MONOTONIC)));
    return channel;
  };
  const auto ageless_server = start(absl::InfiniteDuration());
  const auto aging_server = start(absl::Milliseconds(100));
  const auto stable = connect(*ageless_server);
  const auto aging = connect(*aging_server);
  EXPECT_TRUE(aging->WaitForStateChange(GRPC_CHANNEL_READY, gpr_inf_future(GPR_CLOCK_MONOTONIC)));
  EXPECT_EQ(stable->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace callboard::server
