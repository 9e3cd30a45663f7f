#include "libs/server/bidi_call.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/server/grpc_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"
#include "probe.grpc.pb.h"

namespace callboard::server {
namespace {

using test::IsOk;
using test::StatusIs;
using test::v1::ProbeRequest;
using test::v1::ProbeResponse;
using test::v1::ProbeService;
using ::testing::ElementsAre;
using ProbeCall = BidiCall<ProbeRequest, ProbeResponse>;

// Passes each call to the handler of the test.
class BidiProbeService final : public ProbeService::CallbackService {
 public:
  explicit BidiProbeService(std::function<void(ProbeCall)> handler)
      : handler_(std::move(handler)) {}

  grpc::ServerBidiReactor<ProbeRequest, ProbeResponse>* HoldBidi(
      grpc::CallbackServerContext* context) override {
    return Bidi<ProbeRequest, ProbeResponse>(context, handler_);
  }

 private:
  const std::function<void(ProbeCall)> handler_;
};

class BidiCallTest : public ::testing::Test {
 protected:
  void Start(std::function<void(ProbeCall)> handler) {
    service_ = std::make_unique<BidiProbeService>(std::move(handler));
    auto server = GrpcServer::Start({.listen = {.host = "127.0.0.1"}},
                                    {{ProbeService::service_full_name(), service_.get()}});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    stub_ = ProbeService::NewStub(grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                                      grpc::InsecureChannelCredentials()));
    stream_ = stub_->HoldBidi(&context_);
  }
  void Write(const std::string& name) {
    ProbeRequest request;
    request.set_name(name);
    stream_->Write(request);
  }
  static ProbeResponse Text(const std::string& text) {
    ProbeResponse response;
    response.set_text(text);
    return response;
  }

  std::unique_ptr<BidiProbeService> service_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<ProbeService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<ProbeRequest, ProbeResponse>> stream_;
};

TEST_F(BidiCallTest, MessagesAreAnsweredInOrderUntilTheCallerHalfCloses) {
  Start([](const ProbeCall& call) {
    call.SetMessageHook([call](const ProbeRequest* request) {
      if (request == nullptr) return call.Finish(absl::OkStatus());
      EXPECT_TRUE(call.Write(Text(request->name())));
      call.Read();
    });
    call.Read();
  });
  for (const char* name : {"a", "b", "c"}) Write(name);
  stream_->WritesDone();
  std::vector<std::string> texts;
  ProbeResponse response;
  while (stream_->Read(&response)) texts.push_back(response.text());
  EXPECT_THAT(texts, ElementsAre("a", "b", "c"));
  EXPECT_THAT(wire::FromGrpc(stream_->Finish()), IsOk());
}

TEST_F(BidiCallTest, MessagesAreReadOnlyOnRequest) {
  std::promise<ProbeCall> opened;
  std::promise<std::string> first;
  std::promise<std::string> second;
  Start([&](const ProbeCall& call) {
    call.SetMessageHook([&, is_first = true](const ProbeRequest* request) mutable {
      if (request == nullptr) return;
      (std::exchange(is_first, false) ? first : second).set_value(request->name());
    });
    call.Read();
    opened.set_value(call);
  });
  Write("a");
  Write("b");
  const ProbeCall call = opened.get_future().get();
  EXPECT_EQ(first.get_future().get(), "a");
  std::future<std::string> next = second.get_future();
  EXPECT_EQ(next.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  call.Read();
  EXPECT_EQ(next.get(), "b");
  call.Finish(absl::AbortedError("enough"));
  EXPECT_THAT(wire::FromGrpc(stream_->Finish()), StatusIs(absl::StatusCode::kAborted, "enough"));
  call.Read();
}

TEST_F(BidiCallTest, FinishDuringAReadEndsTheCallOnBothSides) {
  std::promise<ProbeCall> opened;
  std::promise<bool> ended;
  Start([&](const ProbeCall& call) {
    call.SetMessageHook([&](const ProbeRequest* request) { ended.set_value(request == nullptr); });
    call.Read();
    opened.set_value(call);
  });
  opened.get_future().get().Finish(absl::AbortedError("enough"));
  EXPECT_TRUE(ended.get_future().get());
  EXPECT_THAT(wire::FromGrpc(stream_->Finish()), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(BidiCallTest, CancellationRunsTheHookAndEndsTheMessages) {
  std::promise<void> left;
  std::promise<bool> ended;
  Start([&](const ProbeCall& call) {
    call.SetAbandonHook([&left] { left.set_value(); });
    call.SetMessageHook([&](const ProbeRequest* request) { ended.set_value(request == nullptr); });
    call.Read();
  });
  context_.TryCancel();
  left.get_future().wait();
  EXPECT_TRUE(ended.get_future().get());
  EXPECT_THAT(wire::FromGrpc(stream_->Finish()), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace callboard::server
