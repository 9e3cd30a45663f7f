#ifndef CALLBOARD_LIBS_SERVER_SERVER_H_
#define CALLBOARD_LIBS_SERVER_SERVER_H_

#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/adapters/system_random/system_random.h"
#include "libs/base/mutex.h"
#include "libs/http/http_server.h"
#include "libs/ports/clock.h"
#include "libs/ports/random.h"
#include "libs/ports/telemetry.h"
#include "libs/ports/tracing.h"
#include "libs/server/exemplars.h"
#include "libs/server/grpc_server.h"
#include "libs/server/listen_address.h"
#include "libs/server/port_file.h"
#include "libs/server/readiness.h"

namespace callboard::server {

struct ServerOptions {
  // As in the name of the binary: callboard-director.
  std::string name;
  ListenAddress grpc;
  ListenAddress http;
  // Where to write the chosen ports once they are open; nowhere when empty.
  std::string port_file;
};

// What the process gives to a server in it.
class ServerContext {
 public:
  // `end` ends the program in order; it is called once at most.
  ServerContext(ServerOptions options, std::unique_ptr<ports::Telemetry> telemetry,
                std::function<void()> end);

  const ServerOptions& options() const { return options_; }
  const ports::Clock& clock() const { return clock_; }
  ports::Random& random() { return random_; }
  // Sends what is left when the context ends.
  ports::Telemetry& telemetry() { return *telemetry_; }
  // For who makes spans.
  ports::Tracing tracing() { return {*telemetry_, clock_, random_}; }
  // For parts that cannot always do their work.
  Readiness& readiness() { return readiness_; }
  // Metrics registered here are shown at /metrics.
  prometheus::Registry& metrics() { return *metrics_; }
  // And with them these, to who takes them.
  Exemplars& exemplars() { return exemplars_; }

  // A part cannot go on: the program ends as after a signal, and with this error. Thread-safe.
  void Fail(const absl::Status& why);
  // OK when no part did.
  absl::Status failure() const;

 private:
  const ServerOptions options_;
  const adapters::SystemClock clock_;
  adapters::SystemRandom random_;
  const std::unique_ptr<ports::Telemetry> telemetry_;
  const std::function<void()> end_;
  Readiness readiness_;
  // Shared as prometheus-cpp wants it.
  const std::shared_ptr<prometheus::Registry> metrics_;
  Exemplars exemplars_;
  mutable base::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// What a server shows to the world.
struct Surface {
  using StatusReply = std::function<void(absl::StatusOr<std::string>)>;

  std::vector<ServedService> services;
  // Answers the body of /status, a JSON object, through the callback. Must not block.
  std::function<void(StatusReply)> status;
  // Runs when the server stops, before its ports close. Must not block. May be null.
  std::function<void()> drain;
  // Runs after that, and may take its time: what is under way ends meanwhile. May be null.
  std::function<void()> finish = {};
  // Reads anew what can be: a server by itself is told so by a SIGHUP. Must not block. May be null.
  std::function<void()> reload = {};
  // Shown at /metrics beside the context's. Must not block. May be null.
  std::function<std::vector<prometheus::MetricFamily>()> metrics = {};
  // As GrpcServerOptions's.
  absl::Duration connection_age_max = GrpcServerOptions().connection_age_max;
};

// A server that runs: its ports, with health, probes and metrics, and the parts behind them.
class Server {
 public:
  // Opens the ports, and tells a trace collector, if there is one, that it did: so an operator sees
  // that spans arrive before there are tasks. `parts` is what the surface speaks for: it lives as
  // long as the ports are open. `context` outlives the server. UNAVAILABLE when a port cannot be
  // opened, INVALID_ARGUMENT when the port file cannot be written.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerContext& context, Surface surface,
                                                       std::shared_ptr<void> parts);
  // Stops without grace.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // With the ports that were chosen.
  const Addresses& addresses() const { return addresses_; }

  // As the surface's; null when it has none.
  const std::function<void()>& reload() const { return surface_.reload; }

  // Drains and closes: health and /readyz say no, calls under way get `grace` to end by themselves.
  // Does nothing the second time.
  void Stop(absl::Duration grace);

 private:
  Server(ServerContext& context, Surface surface, std::shared_ptr<void> parts);

  ServerContext& context_;
  // What is served from stands before what serves it.
  const std::shared_ptr<void> parts_;
  const Surface surface_;
  Addresses addresses_;
  std::atomic<bool> open_ = false;
  bool stopped_ = false;
  std::unique_ptr<http::HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
};

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_SERVER_H_
