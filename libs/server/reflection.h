#ifndef CALLBOARD_LIBS_SERVER_REFLECTION_H_
#define CALLBOARD_LIBS_SERVER_REFLECTION_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.pb.h"

namespace callboard::server {

// The answer to one request, of a server with these services.
grpc::reflection::v1::ServerReflectionResponse Reflect(
    const grpc::reflection::v1::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

// The reflection service, under its two names. gRPC's own has a thread for each open call, and one
// that waits for the next.
class Reflection {
 public:
  // Of these services, by full name, and itself.
  explicit Reflection(std::vector<std::string> services);
  ~Reflection();

  // Both outlive the server that is built.
  void Register(grpc::ServerBuilder& builder);

 private:
  class Service;
  class OldService;

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<OldService> old_service_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_REFLECTION_H_
