#ifndef CALLBOARD_LIBS_SERVER_RPC_METRICS_H_
#define CALLBOARD_LIBS_SERVER_RPC_METRICS_H_

#include <grpcpp/support/server_interceptor.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "libs/ports/clock.h"

namespace callboard::server {

// Shows in `registry` how calls end, with codes as in UPPER_SNAKE:
//
//   callboard_rpc_duration_seconds{service,method,code}  unary calls, from arrival to answer
//   callboard_rpc_streams_total{service,method,code}     streams that have ended
//   callboard_rpc_streams_open{service,method}           streams that have not
//
// Streams have no duration here: they last as long as their reader likes, which says nothing about
// the server. Only methods of `services`, full names of services in this binary, count: nothing a
// caller makes up becomes a label, and probes of health do not drown the rest.
//
// `registry` and `clock` outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewRpcMetricsInterceptorFactory(const std::vector<std::string>& services,
                                prometheus::Registry& registry, const ports::Clock& clock);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_RPC_METRICS_H_
