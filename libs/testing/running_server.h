// Servers under test: a Callboard server as a process, gRPC services in the test, and an open
// stream.

#ifndef CALLBOARD_LIBS_TESTING_RUNNING_SERVER_H_
#define CALLBOARD_LIBS_TESTING_RUNNING_SERVER_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/testing/process.h"

namespace callboard::test {

// Services of a test, served on a free port of 127.0.0.1.
class RunningService {
 public:
  // The services must outlive this object.
  RunningService(std::initializer_list<grpc::Service*> services) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    for (grpc::Service* service : services) builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A server stream that stays open until this object is destroyed. It uses Health/Watch, which every
// Callboard server has.
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

// Returns the port in an address of this machine.
uint16_t PortOf(absl::string_view address);

// Returns SERVING, NOT_SERVING, or the code of an error for the service (for all services if
// empty). The call times out after a few seconds.
std::string HealthAt(const std::string& address, const std::string& service);

// A Callboard server as a process, on free ports of 127.0.0.1 and with a new data folder unless
// `flags` say otherwise.
class RunningServer {
 public:
  // Returns once it listens. `binary` is a path below the workspace; `environment` is added to the
  // environment of the test, each entry as NAME=value.
  explicit RunningServer(const std::string& binary, const std::vector<std::string>& flags = {},
                         const std::vector<std::string>& environment = {});

  Process& process() { return process_; }
  const std::string& grpc_address() const { return grpc_address_; }
  uint16_t grpc_port() const;
  uint16_t http_port() const { return http_port_; }

  std::shared_ptr<grpc::Channel> NewChannel() const;

  // Returns HealthAt() its address.
  std::string Health(const std::string& service) const { return HealthAt(grpc_address_, service); }

 private:
  Process process_;
  std::string grpc_address_;
  uint16_t http_port_ = 0;
};

// Returns the command line that RunningServer uses, for servers that are expected to fail at
// startup.
std::vector<std::string> ServerCommand(const std::string& binary,
                                       const std::vector<std::string>& flags);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RUNNING_SERVER_H_
