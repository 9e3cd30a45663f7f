// A server in a process: its context, its readiness, its ports and its status page.

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
#include "libs/base/mutex.h"
#include "libs/http/http_server.h"
#include "libs/ports/environment.h"
#include "libs/ports/telemetry.h"
#include "libs/server/grpc_server.h"
#include "libs/server/listen_address.h"
#include "libs/system/system.h"
#include "libs/telemetry/metrics.h"

namespace callboard::server {

// The addresses that a server listens on.
struct Addresses {
  ListenAddress grpc;
  ListenAddress http;
};

// Whether a server is ready to do its work. Thread-safe.
class Readiness {
 public:
  // Sets why the server is not ready. Empty, the initial value, means ready.
  void Set(std::string unready_reason);
  std::string unready_reason() const;

  // Calls `listener` now and at every change between ready and not ready, one call at a time. Null
  // removes the listener. The listener must not call this object.
  void SetListener(std::function<void(bool ready)> listener);

 private:
  mutable base::Mutex mutex_;
  std::string unready_reason_ ABSL_GUARDED_BY(mutex_);
  std::function<void(bool ready)> listener_ ABSL_GUARDED_BY(mutex_);
};

struct ServerOptions {
  // The name of the binary: callboard-director.
  std::string name;
  ListenAddress grpc;
  ListenAddress http;
  // The file that the chosen ports are written to once they are open. Empty writes no file.
  std::string port_file;
};

// The resources that a process provides to a server. Outlives the server.
class ServerContext {
 public:
  // `request_shutdown` starts an orderly shutdown of the program. Fail() calls it at most once.
  ServerContext(ServerOptions options, std::unique_ptr<ports::Telemetry> telemetry,
                std::function<void()> request_shutdown);

  const ServerOptions& options() const { return options_; }
  const ports::Clock& clock() const { return clock_; }
  ports::Random& random() { return random_; }
  // The destructor of the context sends the remaining spans.
  ports::Telemetry& telemetry() { return *telemetry_; }
  // Dependencies for creating spans.
  ports::Tracing tracing() { return {*telemetry_, clock_, random_}; }
  // Set by components that are temporarily unable to work.
  Readiness& readiness() { return readiness_; }
  // Metrics in this registry are shown at /metrics.
  prometheus::Registry& metrics() { return *metrics_; }
  // Shown at /metrics too, to clients that accept OpenMetrics.
  telemetry::Exemplars& exemplars() { return exemplars_; }

  // Reports that a component cannot continue. The program shuts down as after a signal, and exits
  // with this error. Thread-safe.
  void Fail(const absl::Status& why);
  // Returns the first error that was passed to Fail(), or OK.
  absl::Status failure() const;

 private:
  const ServerOptions options_;
  const system::SystemClock clock_;
  system::SystemRandom random_;
  const std::unique_ptr<ports::Telemetry> telemetry_;
  const std::function<void()> request_shutdown_;
  Readiness readiness_;
  // Shared, as prometheus-cpp requires.
  const std::shared_ptr<prometheus::Registry> metrics_;
  telemetry::Exemplars exemplars_;
  mutable base::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// The services of a server and the hooks that Server calls.
struct ServerDefinition {
  using StatusCallback = std::function<void(absl::StatusOr<std::string>)>;

  std::vector<ServedService> services;
  // Passes the body of /status, a JSON object, to the callback. Must not block.
  std::function<void(StatusCallback)> status;
  // Called when the server stops, before its ports close. Must not block. May be null.
  std::function<void()> drain;
  // Called after `drain`. May block until work in progress has ended. May be null.
  std::function<void()> finish = {};
  // Reloads files that can change at run time. A program with one server calls it on SIGHUP. Must
  // not block. May be null.
  std::function<void()> reload = {};
  // Returns more metrics to show at /metrics, beside the context's. Must not block. May be null.
  std::function<std::vector<prometheus::MetricFamily>()> metrics = {};
  // See GrpcServerOptions.
  absl::Duration connection_age_max = GrpcServerOptions().connection_age_max;
};

// A running server: its gRPC and HTTP ports, with health, probes and metrics, and the components
// behind them. Not thread-safe.
class Server {
 public:
  // Opens the ports and emits a span `server.start`, so that an operator can see whether spans
  // reach the trace collector before there are tasks. The services and hooks use `components`,
  // which is released after the ports are closed. `context` outlives the server. Returns
  // UNAVAILABLE if a port cannot be opened, INVALID_ARGUMENT if the port file cannot be written.
  static absl::StatusOr<std::unique_ptr<Server>> Start(ServerContext& context,
                                                       ServerDefinition definition,
                                                       std::shared_ptr<void> components);
  // Calls Stop() without a grace period.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The addresses with the chosen ports.
  const Addresses& addresses() const { return addresses_; }

  // ServerDefinition::reload; may be null.
  const std::function<void()>& reload() const { return definition_.reload; }

  // Drains and closes: health and /readyz say no, calls under way get `grace` to finish by
  // themselves. Does nothing the second time.
  void Stop(absl::Duration grace);

 private:
  Server(ServerContext& context, ServerDefinition definition, std::shared_ptr<void> components);

  ServerContext& context_;
  // Declared before the ports, so that it is destroyed after them.
  const std::shared_ptr<void> components_;
  const ServerDefinition definition_;
  Addresses addresses_;
  std::atomic<bool> open_ = false;
  bool stopped_ = false;
  std::unique_ptr<http::HttpServer> http_;
  std::unique_ptr<GrpcServer> grpc_;
};

// ---- The port file and the status page ----

// Returns the ports as JSON: {"grpc":7070,"http":8080}
std::string PortsJson(const Addresses& addresses);

// Writes `json` to the file at `path`, atomically: readers never see a part of it. Does nothing if
// `path` is empty. Returns INVALID_ARGUMENT if the file cannot be written.
absl::Status WritePortFile(const std::string& path, const std::string& json);

// A member of the page: a name, and a value as JSON text.
struct StatusMember {
  std::string name;
  std::string json;
};

// Returns the body of a server's /status: its type, its interfaces, its version, and `members`.
std::string RenderStatusPage(const std::vector<std::string>& interfaces,
                             const std::vector<StatusMember>& members);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_SERVER_H_
