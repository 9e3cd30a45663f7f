#ifndef CALLBOARD_LIBS_TELEMETRY_RPC_METRICS_H_
#define CALLBOARD_LIBS_TELEMETRY_RPC_METRICS_H_

#include <grpcpp/support/server_interceptor.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <vector>

#include "libs/ports/environment.h"

namespace callboard::telemetry {

// Returns interceptors that count calls in `registry`. Codes are in UPPER_SNAKE:
//
//   callboard_rpc_duration_seconds{service,method,code}  unary calls, from arrival to answer
//   callboard_rpc_streams_total{service,method,code}     ended streams
//   callboard_rpc_streams_open{service,method}           open streams
//
// The duration of streams is not measured: it depends on the reader, not on the server. Only the
// methods of `services` (full names of services in this binary) are counted. So callers cannot
// create labels, and health checks do not dominate the metrics.
//
// `registry` and `clock` outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewRpcMetricsInterceptorFactory(const std::vector<std::string>& services,
                                prometheus::Registry& registry, const ports::Clock& clock);

}  // namespace callboard::telemetry

#endif  // CALLBOARD_LIBS_TELEMETRY_RPC_METRICS_H_
