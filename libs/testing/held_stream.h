#ifndef CALLBOARD_LIBS_TESTING_HELD_STREAM_H_
#define CALLBOARD_LIBS_TESTING_HELD_STREAM_H_

#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace callboard::test {

// A stream that its server has answered once and holds open: Health/Watch, which every server of
// ours has. Ends when it is destroyed.
class HeldStream {
 public:
  // Returns once the server has answered. `address` is host:port.
  explicit HeldStream(const std::string& address);
  ~HeldStream();

 private:
  const std::unique_ptr<grpc::health::v1::Health::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<grpc::health::v1::HealthCheckResponse>> reader_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_HELD_STREAM_H_
