#include "libs/testing/running_server.h"

#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"

namespace callboard::test {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HeldStream::HeldStream(const std::string& address)
    : stub_(Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))),
      reader_(stub_->Watch(&context_, HealthCheckRequest())) {
  HealthCheckResponse first;
  CHECK(reader_->Read(&first)) << address;
}

HeldStream::~HeldStream() {
  context_.TryCancel();
  HealthCheckResponse rest;
  while (reader_->Read(&rest)) continue;
  // The status does not matter: the server may be gone.
  const grpc::Status ignored = reader_->Finish();
}

namespace {

namespace health = grpc::health::v1;

std::vector<std::string> WithEnvironment(const std::vector<std::string>& environment,
                                         const std::vector<std::string>& command) {
  std::vector<std::string> words = {"/usr/bin/env"};
  words.insert(words.end(), environment.begin(), environment.end());
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace

uint16_t PortOf(absl::string_view address) {
  CHECK(absl::ConsumePrefix(&address, "127.0.0.1:")) << address;
  uint32_t port = 0;
  CHECK(absl::SimpleAtoi(address, &port)) << address;
  return static_cast<uint16_t>(port);
}

std::vector<std::string> ServerCommand(const std::string& binary,
                                       const std::vector<std::string>& flags) {
  std::vector<std::string> command = {BuiltBinary(binary), "--grpc.listen=127.0.0.1:0",
                                      "--http.listen=127.0.0.1:0",
                                      absl::StrCat("--data_dir=", NewFolder().string())};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

RunningServer::RunningServer(const std::string& binary, const std::vector<std::string>& flags,
                             const std::vector<std::string>& environment)
    : process_(environment.empty() ? ServerCommand(binary, flags)
                                   : WithEnvironment(environment, ServerCommand(binary, flags))) {
  const std::string line = process_.WaitForLine("server=listening");
  grpc_address_ = FieldOf(line, "grpc");
  http_port_ = PortOf(FieldOf(line, "http"));
}

uint16_t RunningServer::grpc_port() const { return PortOf(grpc_address_); }

std::shared_ptr<grpc::Channel> RunningServer::NewChannel() const {
  return grpc::CreateChannel(grpc_address_, grpc::InsecureChannelCredentials());
}

std::string HealthAt(const std::string& address, const std::string& service) {
  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_seconds(5, GPR_TIMESPAN));
  health::HealthCheckRequest request;
  health::HealthCheckResponse response;
  request.set_service(service);
  const grpc::Status status =
      health::Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))
          ->Check(&context, request, &response);
  if (!status.ok()) return absl::StrCat("code ", static_cast<int>(status.error_code()));
  return health::HealthCheckResponse::ServingStatus_Name(response.status());
}

}  // namespace callboard::test
