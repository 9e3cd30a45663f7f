#ifndef CALLBOARD_LIBS_LINK_CLIENT_TRACING_H_
#define CALLBOARD_LIBS_LINK_CLIENT_TRACING_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/ports/telemetry.h"

namespace callboard::link {

// Returns interceptors for a channel to `address` (host:port). They emit a client span for each
// call whose metadata contain a `traceparent`. The span is a child of the span that `traceparent`
// names, and the server receives the new span's id instead. Returns none when telemetry is off. The
// objects in `tracing` outlive the calls of the channel.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TracingInterceptors(absl::string_view address, const ports::Tracing& tracing);

}  // namespace callboard::link

#endif  // CALLBOARD_LIBS_LINK_CLIENT_TRACING_H_
