#ifndef CALLBOARD_LIBS_SERVER_WORKAROUNDS_REFLECTION_H_
#define CALLBOARD_LIBS_SERVER_WORKAROUNDS_REFLECTION_H_

#include <grpcpp/server_builder.h>

#include <memory>
#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.pb.h"

namespace callboard::server {

// Returns the response to one request, for a server with these services.
grpc::reflection::v1::ServerReflectionResponse MakeReflectionResponse(
    const grpc::reflection::v1::ServerReflectionRequest& request,
    const std::vector<std::string>& services);

// The reflection service, under its names v1 and v1alpha. Replaces gRPC's, which needs a thread per
// open call and one more that waits for the next call.
class Reflection {
 public:
  // Describes `services` (full names) and itself.
  explicit Reflection(std::vector<std::string> services);
  ~Reflection();

  // Registers the service. `this` outlives the server that `builder` builds.
  void Register(grpc::ServerBuilder& builder);

 private:
  class Service;
  class V1AlphaService;

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<V1AlphaService> v1alpha_service_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_WORKAROUNDS_REFLECTION_H_
