#include "libs/server/server.h"

#include <prometheus/gauge.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/ports/telemetry.h"
#include "libs/server/grpc_server.h"
#include "libs/system/staged_file.h"
#include "libs/telemetry/metrics.h"

namespace callboard::server {
namespace {

using system::StagedFile;

http::Response PlainText(int status, std::string text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::move(text)};
}

http::Response StatusResponse(const absl::StatusOr<std::string>& json) {
  if (json.ok()) return {.body = absl::StrCat(*json, "\n")};
  return http::ErrorResponse(503, json.status().message());
}

prometheus::MetricFamily DroppedSpansCounter(const ports::Telemetry& telemetry) {
  prometheus::MetricFamily family;
  family.name = "callboard_spans_dropped_total";
  family.help = "Spans that were not delivered to the trace collector.";
  family.type = prometheus::MetricType::Counter;
  family.metric.emplace_back().counter.value = static_cast<double>(telemetry.lost());
  return family;
}

// Returns the routes of every server. The arguments outlive the HTTP server.
http::RouteMap MakeAdminRoutes(const ServerDefinition& definition, ServerContext& context,
                               const std::atomic<bool>& open) {
  http::RouteMap routes;
  routes["/livez"] = [](const http::Request&, const http::ResponseCallback& respond) {
    respond(PlainText(200, "ok\n"));
  };
  routes["/readyz"] = [&context, &open](const http::Request&,
                                        const http::ResponseCallback& respond) {
    const std::string unready_reason = open ? context.readiness().unready_reason() : "draining";
    respond(unready_reason.empty() ? PlainText(200, "ready\n")
                                   : PlainText(503, absl::StrCat(unready_reason, "\n")));
  };
  routes["/metrics"] = [&](const http::Request& request, const http::ResponseCallback& respond) {
    std::vector<prometheus::MetricFamily> families = context.metrics().Collect();
    families.push_back(DroppedSpansCounter(context.telemetry()));
    if (definition.metrics) {
      for (prometheus::MetricFamily& family : definition.metrics()) {
        families.push_back(std::move(family));
      }
    }
    if (telemetry::AcceptsOpenMetrics(request.accept)) {
      return respond({.content_type = telemetry::kOpenMetricsContentType,
                      .body = telemetry::SerializeOpenMetrics(families, context.exemplars())});
    }
    respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
             .body = prometheus::TextSerializer().Serialize(families)});
  };
  routes["/status"] = [&definition](const http::Request&, http::ResponseCallback respond) {
    definition.status([respond = std::move(respond)](const absl::StatusOr<std::string>& json) {
      respond(StatusResponse(json));
    });
  };
  return routes;
}

}  // namespace

void Readiness::Set(std::string unready_reason) {
  base::MutexLock lock(mutex_);
  const bool is_change = unready_reason.empty() != unready_reason_.empty();
  unready_reason_ = std::move(unready_reason);
  if (is_change && listener_) listener_(unready_reason_.empty());
}

std::string Readiness::unready_reason() const {
  base::MutexLock lock(mutex_);
  return unready_reason_;
}

void Readiness::SetListener(std::function<void(bool ready)> listener) {
  base::MutexLock lock(mutex_);
  listener_ = std::move(listener);
  if (listener_) listener_(unready_reason_.empty());
}

ServerContext::ServerContext(ServerOptions options, std::unique_ptr<ports::Telemetry> telemetry,
                             std::function<void()> request_shutdown)
    : options_(std::move(options)),
      telemetry_(std::move(telemetry)),
      request_shutdown_(std::move(request_shutdown)),
      metrics_(std::make_shared<prometheus::Registry>()) {
  prometheus::BuildGauge()
      .Name("callboard_build_info")
      .Help("Always 1; the labels have the name and version of the server.")
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
  request_shutdown_();
}

absl::Status ServerContext::failure() const {
  base::MutexLock lock(mutex_);
  return failure_;
}

Server::Server(ServerContext& context, ServerDefinition definition,
               std::shared_ptr<void> components)
    : context_(context), components_(std::move(components)), definition_(std::move(definition)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(ServerContext& context,
                                                      ServerDefinition definition,
                                                      std::shared_ptr<void> components) {
  const absl::Time began = context.clock().WallNow();
  const ServerOptions& options = context.options();
  auto server =
      std::unique_ptr<Server>(new Server(context, std::move(definition), std::move(components)));
  const DescriptorShares descriptors = ShareDescriptors();
  ASSIGN_OR_RETURN(server->http_, http::HttpServer::Start({.host = options.http.host,
                                                           .port = options.http.port,
                                                           .descriptors_max = descriptors.http},
                                                          MakeAdminRoutes(server->definition_,
                                                                          context, server->open_)));
  ASSIGN_OR_RETURN(server->grpc_,
                   GrpcServer::Start({.listen = options.grpc,
                                      .descriptors_max = descriptors.grpc,
                                      .connection_age_max = server->definition_.connection_age_max,
                                      .metrics = &context.metrics(),
                                      .clock = &context.clock()},
                                     server->definition_.services));
  context.readiness().SetListener(
      [grpc = server->grpc_.get()](bool ready) { grpc->SetServing(ready); });
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
  // There is nothing to stop if the ports did not open.
  if (grpc_ != nullptr) Stop(absl::ZeroDuration());
}

void Server::Stop(absl::Duration grace) {
  if (std::exchange(stopped_, true)) return;
  open_ = false;
  base::LogInfo("server", "draining", {{"service", context_.options().name}});
  context_.readiness().SetListener(nullptr);
  grpc_->StopServing();
  if (definition_.drain) definition_.drain();
  if (definition_.finish) definition_.finish();
  grpc_->Shutdown(grace);
  http_.reset();
  base::LogInfo("server", "stopped", {{"service", context_.options().name}});
}

std::string PortsJson(const Addresses& addresses) {
  return absl::StrCat("{\"grpc\":", addresses.grpc.port, ",\"http\":", addresses.http.port, "}");
}

absl::Status WritePortFile(const std::string& path, const std::string& json) {
  if (path.empty()) return absl::OkStatus();
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(StagedFile file, StagedFile::Create(path, StagedFile::Readers::kEverybody));
    RETURN_IF_ERROR(file.Append(absl::StrCat(json, "\n")));
    return std::move(file).Promote({});
  };
  const absl::Status written = write();
  if (written.ok()) return written;
  return absl::InvalidArgumentError(absl::StrCat("port_file: ", written.message()));
}

std::string RenderStatusPage(const std::vector<std::string>& interfaces,
                             const std::vector<StatusMember>& members) {
  const auto quoted = [](std::string* out, const std::string& text) {
    *out += base::JsonQuoted(text);
  };
  std::string page =
      absl::StrCat(R"({"type":"view","interfaces":[)", absl::StrJoin(interfaces, ",", quoted),
                   R"(],"version":)", base::JsonQuoted(base::kVersion));
  for (const StatusMember& member : members) {
    absl::StrAppend(&page, ",", base::JsonQuoted(member.name), ":", member.json);
  }
  return page + "}";
}

}  // namespace callboard::server
