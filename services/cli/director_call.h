#ifndef CALLBOARD_SERVICES_CLI_DIRECTOR_CALL_H_
#define CALLBOARD_SERVICES_CLI_DIRECTOR_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"

namespace callboard::cli {

namespace internal {

std::shared_ptr<grpc::Channel> Connect(const config::v1::CliConfig& config);
void LimitTo(const config::v1::CliConfig& config, grpc::ClientContext& context);
// The director's own error, or that it is not there, or that it is but does not answer.
absl::Status ErrorOf(const grpc::Status& status, grpc::Channel& channel,
                     const config::v1::CliConfig& config);

}  // namespace internal

template <class Stub, class Request, class Response>
using DirectorMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// Calls the director that the settings name, and waits as long as they allow.
template <class Stub, class Request, class Response>
absl::StatusOr<Response> CallDirector(const config::v1::CliConfig& config,
                                      DirectorMethod<Stub, Request, Response> method,
                                      const Request& request) {
  grpc::ClientContext context;
  internal::LimitTo(config, context);
  const std::shared_ptr<grpc::Channel> channel = internal::Connect(config);
  Stub stub(channel);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return internal::ErrorOf(status, *channel, config);
  return response;
}

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DIRECTOR_CALL_H_
