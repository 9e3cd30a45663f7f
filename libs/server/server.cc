#include "libs/server/server.h"

#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/base/version.h"
#include "libs/ports/span_names.h"
#include "libs/server/descriptor_shares.h"
#include "libs/server/open_metrics.h"

namespace callboard::server {
namespace {

http::Response PlainText(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

http::Response StatusResponse(const absl::StatusOr<std::string>& json) {
  if (json.ok()) return {.body = absl::StrCat(*json, "\n")};
  return http::ErrorResponse(503, json.status().message());
}

prometheus::MetricFamily SpansDropped(const ports::Telemetry& telemetry) {
  prometheus::MetricFamily family;
  family.name = "callboard_spans_dropped_total";
  family.help = "Spans that did not get to the collector of traces.";
  family.type = prometheus::MetricType::Counter;
  family.metric.emplace_back().counter.value = static_cast<double>(telemetry.lost());
  return family;
}

// The paths that every HTTP port has.
http::GetRoutes AdminRoutes(const Surface& surface, ServerContext& context,
                            const std::atomic<bool>& open) {
  http::GetRoutes routes;
  routes["/livez"] = [](const http::Request&, const http::Respond& respond) {
    respond(PlainText(200, "ok\n"));
  };
  routes["/readyz"] = [&context, &open](const http::Request&, const http::Respond& respond) {
    const std::string why_not = open ? context.readiness().why_not() : "draining";
    respond(why_not.empty() ? PlainText(200, "ready\n")
                            : PlainText(503, absl::StrCat(why_not, "\n")));
  };
  routes["/metrics"] = [&](const http::Request& request, const http::Respond& respond) {
    std::vector<prometheus::MetricFamily> families = context.metrics().Collect();
    families.push_back(SpansDropped(context.telemetry()));
    if (surface.metrics) {
      for (prometheus::MetricFamily& family : surface.metrics()) {
        families.push_back(std::move(family));
      }
    }
    if (TakesOpenMetrics(request.accept)) {
      return respond(
          {.content_type = kOpenMetricsType, .body = OpenMetrics(families, context.exemplars())});
    }
    respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
             .body = prometheus::TextSerializer().Serialize(families)});
  };
  routes["/status"] = [&surface](const http::Request&, http::Respond respond) {
    surface.status([respond = std::move(respond)](const absl::StatusOr<std::string>& json) {
      respond(StatusResponse(json));
    });
  };
  return routes;
}

}  // namespace

ServerContext::ServerContext(ServerOptions options, std::unique_ptr<ports::Telemetry> telemetry,
                             std::function<void()> end)
    : options_(std::move(options)),
      telemetry_(std::move(telemetry)),
      end_(std::move(end)),
      metrics_(std::make_shared<prometheus::Registry>()) {
  prometheus::BuildGauge()
      .Name("callboard_build_info")
      .Help("Always 1; the labels say what runs.")
      .Register(*metrics_)
      .Add({{"service", options_.name}, {"version", std::string(base::kVersion)}})
      .Set(1);
}

void ServerContext::Fail(const absl::Status& why) {
  base::LogError("server", "failed", {{"service", options_.name}, {"error", why.message()}});
  {
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = why;
  }
  end_();
}

absl::Status ServerContext::failure() const {
  base::MutexLock lock(mutex_);
  return failure_;
}

Server::Server(ServerContext& context, Surface surface, std::shared_ptr<void> parts)
    : context_(context), parts_(std::move(parts)), surface_(std::move(surface)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerContext& context, Surface surface,
                                                      std::shared_ptr<void> parts) {
  const absl::Time began = context.clock().WallNow();
  const ServerOptions& options = context.options();
  auto server = std::unique_ptr<Server>(new Server(context, std::move(surface), std::move(parts)));
  const DescriptorShares descriptors = ShareDescriptors();
  ASSIGN_OR_RETURN(server->http_,
                   http::HttpServer::Start({.host = options.http.host,
                                            .port = options.http.port,
                                            .descriptors_max = descriptors.http},
                                           AdminRoutes(server->surface_, context, server->open_)));
  ASSIGN_OR_RETURN(server->grpc_,
                   GrpcServer::Start({.listen = options.grpc,
                                      .descriptors_max = descriptors.grpc,
                                      .connection_age_max = server->surface_.connection_age_max,
                                      .metrics = &context.metrics(),
                                      .clock = &context.clock()},
                                     server->surface_.services));
  context.readiness().Watch([grpc = server->grpc_.get()](bool ready) { grpc->SetServing(ready); });
  server->open_ = true;
  server->addresses_ = {.grpc = {options.grpc.host, server->grpc_->port()},
                        .http = {options.http.host, server->http_->port()}};
  RETURN_IF_ERROR(WritePortFile(options.port_file, PortsJson(server->addresses_)));
  base::LogInfo("server", "listening",
                {{"service", options.name},
                 {"version", base::kVersion},
                 {"grpc", server->addresses_.grpc.ToString()},
                 {"http", server->addresses_.http.ToString()}});
  context.telemetry().Emit({.name = ports::span_names::kServerStart,
                            .context = ports::BeginTrace(context.tracing()),
                            .start = began,
                            .end = context.clock().WallNow()});
  return server;
}

Server::~Server() {
  // A server whose ports did not open has nothing to stop.
  if (grpc_ != nullptr) Stop(absl::ZeroDuration());
}

void Server::Stop(absl::Duration grace) {
  if (std::exchange(stopped_, true)) return;
  open_ = false;
  base::LogInfo("server", "draining", {{"service", context_.options().name}});
  context_.readiness().Watch(nullptr);
  grpc_->StopServing();
  if (surface_.drain) surface_.drain();
  if (surface_.finish) surface_.finish();
  grpc_->Shutdown(grace);
  http_.reset();
  base::LogInfo("server", "stopped", {{"service", context_.options().name}});
}

}  // namespace callboard::server
