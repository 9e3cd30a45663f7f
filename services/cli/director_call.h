#ifndef CALLBOARD_SERVICES_CLI_DIRECTOR_CALL_H_
#define CALLBOARD_SERVICES_CLI_DIRECTOR_CALL_H_

#include <grpcpp/client_context.h>

#include <memory>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/queue.grpc.pb.h"

namespace callboard::cli {

namespace internal {

std::unique_ptr<v1::QueueService::Stub> Connect(const config::v1::CliConfig& config);
void LimitTo(const config::v1::CliConfig& config, grpc::ClientContext& context);
// The director's own error, or that it is silent.
absl::Status ErrorOf(const grpc::Status& status, const config::v1::CliConfig& config);

}  // namespace internal

template <class Request, class Response>
using DirectorMethod = grpc::Status (v1::QueueService::Stub::*)(grpc::ClientContext*,
                                                                const Request&, Response*);

// Calls the director that the settings name, and waits as long as they allow.
template <class Request, class Response>
absl::StatusOr<Response> CallDirector(const config::v1::CliConfig& config,
                                      DirectorMethod<Request, Response> method,
                                      const Request& request) {
  grpc::ClientContext context;
  internal::LimitTo(config, context);
  Response response;
  const grpc::Status status =
      (internal::Connect(config).get()->*method)(&context, request, &response);
  if (!status.ok()) return internal::ErrorOf(status, config);
  return response;
}

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DIRECTOR_CALL_H_
