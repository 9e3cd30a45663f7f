#ifndef CALLBOARD_LIBS_ADAPTERS_CLIENT_TRACING_CLIENT_TRACING_H_
#define CALLBOARD_LIBS_ADAPTERS_CLIENT_TRACING_CLIENT_TRACING_H_

#include <grpcpp/support/client_interceptor.h>

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "libs/ports/clock.h"
#include "libs/ports/random.h"
#include "libs/ports/telemetry.h"

namespace callboard::adapters {

// W3C's key of a call's metadata.
inline constexpr absl::string_view kTraceparent = "traceparent";

// What it takes to make spans of calls.
struct ClientTracing {
  ports::Telemetry& telemetry;
  const ports::Clock& clock;
  ports::Random& random;
};

// For a channel: of calls whose metadata have a `traceparent`, each is a span below the one that
// this names, and is named in its stead to the server. Nothing, where nobody collects spans. What
// `tracing` has outlives the channel's calls.
std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TracingInterceptors(const ClientTracing& tracing);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_CLIENT_TRACING_CLIENT_TRACING_H_
