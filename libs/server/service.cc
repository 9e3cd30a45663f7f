#include "libs/server/service.h"

#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/base/version.h"
#include "libs/http/http_server.h"

namespace callboard::server {
namespace {

// What calls under way get to end by themselves; a supervisor's own patience is longer.
constexpr absl::Duration kShutdownGrace = absl::Seconds(1);

http::Response PlainText(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

http::Response StatusResponse(const absl::StatusOr<std::string>& json) {
  if (json.ok()) return {.body = absl::StrCat(*json, "\n")};
  return http::ErrorResponse(503, json.status().message());
}

// The paths that every HTTP port has.
http::GetRoutes AdminRoutes(const Surface& surface, prometheus::Registry& metrics,
                            const std::atomic<bool>& ready) {
  http::GetRoutes routes;
  routes["/livez"] = [](const http::Request&, const http::Respond& respond) {
    respond(PlainText(200, "ok\n"));
  };
  routes["/readyz"] = [&ready](const http::Request&, const http::Respond& respond) {
    respond(ready ? PlainText(200, "ready\n") : PlainText(503, "draining\n"));
  };
  routes["/metrics"] = [&metrics](const http::Request&, const http::Respond& respond) {
    respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
             .body = prometheus::TextSerializer().Serialize(metrics.Collect())});
  };
  routes["/status"] = [&surface](const http::Request&, http::Respond respond) {
    surface.status([respond = std::move(respond)](const absl::StatusOr<std::string>& json) {
      respond(StatusResponse(json));
    });
  };
  return routes;
}

// Whoever sees the file sees all of it.
absl::Status WritePortFile(const std::string& path, uint16_t grpc_port, uint16_t http_port) {
  const std::string temporary = path + ".new";
  std::ofstream file(temporary, std::ios::trunc);
  file << "{\"grpc\":" << grpc_port << ",\"http\":" << http_port << "}\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("port_file: cannot write '", path, "'"));
  }
  return absl::OkStatus();
}

}  // namespace

Service::Service(ServiceOptions options, Termination& termination)
    : options_(std::move(options)),
      termination_(termination),
      metrics_(std::make_shared<prometheus::Registry>()) {
  prometheus::BuildGauge()
      .Name("callboard_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(*metrics_)
      .Add({{"service", options_.name}, {"version", std::string(base::kVersion)}})
      .Set(1);
}

absl::Status Service::Serve(const Surface& surface) {
  std::atomic<bool> ready = false;
  ASSIGN_OR_RETURN(std::unique_ptr<http::HttpServer> http_server,
                   http::HttpServer::Start({.host = options_.http.host, .port = options_.http.port},
                                           AdminRoutes(surface, *metrics_, ready)));
  ASSIGN_OR_RETURN(std::unique_ptr<GrpcServer> grpc_server,
                   GrpcServer::Start({.listen = options_.grpc}, surface.services));
  ready = true;
  if (!options_.port_file.empty()) {
    RETURN_IF_ERROR(WritePortFile(options_.port_file, grpc_server->port(), http_server->port()));
  }
  base::LogInfo("server", "listening",
                {{"service", options_.name},
                 {"version", base::kVersion},
                 {"grpc", ListenAddress{options_.grpc.host, grpc_server->port()}.ToString()},
                 {"http", ListenAddress{options_.http.host, http_server->port()}.ToString()}});

  termination_.WaitForSignal();
  base::LogInfo("server", "draining");
  ready = false;
  grpc_server->StopServing();
  if (surface.drain) surface.drain();
  grpc_server->Shutdown(kShutdownGrace);
  http_server.reset();
  base::LogInfo("server", "stopped");
  return absl::OkStatus();
}

}  // namespace callboard::server
