#ifndef CALLBOARD_LIBS_ADAPTERS_CLIENT_TRACING_CLIENT_TRACING_H_
#define CALLBOARD_LIBS_ADAPTERS_CLIENT_TRACING_CLIENT_TRACING_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/ports/tracing.h"

namespace callboard::adapters {

// For a channel to that host:port: of calls whose metadata have a `traceparent`, each is a span
// below the one that this names, and is named in its stead to the server. Nothing, where nobody
// collects spans. What `tracing` has outlives the channel's calls.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TracingInterceptors(absl::string_view address, const ports::Tracing& tracing);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_CLIENT_TRACING_CLIENT_TRACING_H_
