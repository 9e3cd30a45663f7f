#ifndef CALLBOARD_LIBS_TESTING_RUNNING_SERVER_H_
#define CALLBOARD_LIBS_TESTING_RUNNING_SERVER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/testing/process.h"

namespace callboard::test {

// The port in an address of this machine.
uint16_t PortOf(absl::string_view address);

// SERVING, NOT_SERVING, or the code of an error, of the service (of all when empty). Waits no
// longer than a server that is well needs.
std::string HealthAt(const std::string& address, const std::string& service);

// One of our servers as a process, on free ports of 127.0.0.1 and with a new data folder unless
// `flags` say otherwise.
class RunningServer {
 public:
  // Returns once it listens. `binary` is a path below the workspace; `environment` is added to the
  // test's, each as NAME=value.
  explicit RunningServer(const std::string& binary, const std::vector<std::string>& flags = {},
                         const std::vector<std::string>& environment = {});

  Process& process() { return process_; }
  const std::string& grpc_address() const { return grpc_address_; }
  uint16_t grpc_port() const;
  uint16_t http_port() const { return http_port_; }

  std::shared_ptr<grpc::Channel> NewChannel() const;

  // As HealthAt() its address.
  std::string Health(const std::string& service) const { return HealthAt(grpc_address_, service); }

 private:
  Process process_;
  std::string grpc_address_;
  uint16_t http_port_ = 0;
};

// The command line that RunningServer uses, for servers that are not meant to start.
std::vector<std::string> ServerCommand(const std::string& binary,
                                       const std::vector<std::string>& flags);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RUNNING_SERVER_H_
