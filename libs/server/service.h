#ifndef CALLBOARD_LIBS_SERVER_SERVICE_H_
#define CALLBOARD_LIBS_SERVER_SERVICE_H_

#include <prometheus/registry.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/server/grpc_server.h"
#include "libs/server/listen_address.h"
#include "libs/server/termination.h"

namespace callboard::server {

struct ServiceOptions {
  // As in the name of the binary: callboard-director.
  std::string name;
  ListenAddress grpc;
  ListenAddress http;
  // Where to write the chosen ports; nowhere when empty.
  std::string port_file;
};

// What a binary serves.
struct Surface {
  using StatusReply = std::function<void(absl::StatusOr<std::string>)>;

  std::vector<ServedService> services;
  // Answers the body of /status, a JSON object, through the callback. Must not block.
  std::function<void(StatusReply)> status;
  // Runs at the first signal, before the ports close. Must not block.
  std::function<void()> drain;
};

// The outside of every server: ports, health, probes, metrics, signals.
class Service {
 public:
  // `termination` outlives the service.
  Service(ServiceOptions options, Termination& termination);

  // Metrics registered here are shown at /metrics.
  prometheus::Registry& metrics() { return *metrics_; }

  // Opens the ports, serves until the first signal, then drains: health and /readyz say no, calls
  // under way get a moment, everything closes. UNAVAILABLE when a port cannot be opened.
  absl::Status Serve(const Surface& surface);

 private:
  const ServiceOptions options_;
  Termination& termination_;
  // Shared as prometheus-cpp wants it.
  const std::shared_ptr<prometheus::Registry> metrics_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_SERVICE_H_
