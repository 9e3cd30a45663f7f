#ifndef CALLBOARD_LIBS_TESTING_RUNNING_SERVICE_H_
#define CALLBOARD_LIBS_TESTING_RUNNING_SERVICE_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::test {

// Services of a test's own, served on a free port of 127.0.0.1.
class RunningService {
 public:
  // They outlive it.
  explicit RunningService(std::initializer_list<grpc::Service*> services) {
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

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RUNNING_SERVICE_H_
