#include "libs/testing/held_stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "libs/base/check.h"

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
  // However it ended: the server may be gone.
  const grpc::Status ignored = reader_->Finish();
}

}  // namespace callboard::test
