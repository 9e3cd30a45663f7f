// Calls of the servers that the settings name.
#ifndef CALLBOARD_SERVICES_CLI_PEER_CALL_H_
#define CALLBOARD_SERVICES_CLI_PEER_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "services/cli/peer.h"

namespace callboard::cli {

template <class Stub, class Request, class Response>
using PeerMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

namespace internal {

Peer DirectorOf(const config::v1::CliConfig& config);
Peer SchedulerOf(const config::v1::CliConfig& config);

std::shared_ptr<grpc::Channel> Connect(const Peer& peer);
void LimitTo(const config::v1::CliConfig& config, grpc::ClientContext& context);
// Makes the call part of the trace that TRACEPARENT in the environment names, if it names one.
void JoinTrace(grpc::ClientContext& context);
// The peer's own error, or that it is not there, or that it is but does not answer.
absl::Status ErrorOf(const grpc::Status& status, grpc::Channel& channel, const Peer& peer,
                     const config::v1::CliConfig& config);

template <class Stub, class Request, class Response>
absl::StatusOr<Response> Call(const Peer& peer, const config::v1::CliConfig& config,
                              PeerMethod<Stub, Request, Response> method, const Request& request) {
  grpc::ClientContext context;
  LimitTo(config, context);
  JoinTrace(context);
  const std::shared_ptr<grpc::Channel> channel = Connect(peer);
  Stub stub(channel);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return ErrorOf(status, *channel, peer, config);
  return response;
}

}  // namespace internal

// Each calls the one that the settings name, and waits as long as they allow.
template <class Stub, class Request, class Response>
absl::StatusOr<Response> CallDirector(const config::v1::CliConfig& config,
                                      PeerMethod<Stub, Request, Response> method,
                                      const Request& request) {
  return internal::Call(internal::DirectorOf(config), config, method, request);
}
template <class Stub, class Request, class Response>
absl::StatusOr<Response> CallScheduler(const config::v1::CliConfig& config,
                                       PeerMethod<Stub, Request, Response> method,
                                       const Request& request) {
  return internal::Call(internal::SchedulerOf(config), config, method, request);
}

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_PEER_CALL_H_
