// Bare gRPC as a baseline: answers every call and every message of a stream immediately, and
// accepts everything else, as a collector of spans does. Prints `listening port=<n>` and runs until
// it is killed.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <cstdio>

#include "libs/base/check.h"
#include "probe.grpc.pb.h"

namespace callboard {
namespace {

using test::v1::ProbeRequest;
using test::v1::ProbeResponse;

class Echo final : public grpc::ServerBidiReactor<ProbeRequest, ProbeResponse> {
 public:
  Echo() { StartRead(&request_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    *response_.mutable_text() = std::move(*request_.mutable_name());
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

  ProbeRequest request_;
  ProbeResponse response_;
};

class RawService final : public test::v1::ProbeService::CallbackService {
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context, const ProbeRequest* request,
                                 ProbeResponse* response) override {
    response->set_text(request->name());
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerBidiReactor<ProbeRequest, ProbeResponse>* HoldBidi(
      grpc::CallbackServerContext*) override {
    return new Echo;
  }
};

// Reads a message of any call, and answers with an empty one.
class Taker final : public grpc::ServerGenericBidiReactor {
 public:
  Taker() { StartRead(&message_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    message_ = grpc::ByteBuffer(&empty_, 1);
    StartWriteAndFinish(&message_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

  const grpc::Slice empty_;
  grpc::ByteBuffer message_;
};

class Sink final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Taker;
  }
};

int Main() {
  RawService service;
  Sink sink;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  builder.RegisterCallbackGenericService(&sink);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  CHECK(server != nullptr);
  std::fprintf(stderr, "listening port=%d\n", port);
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace callboard

int main() { return callboard::Main(); }
