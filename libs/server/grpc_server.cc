#include "libs/server/grpc_server.h"

#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/core/limits.h"
#include "libs/server/connection_calls.h"
#include "libs/server/error_detail_interceptor.h"
#include "libs/server/rpc_metrics.h"
#include "libs/wire/parse.h"

namespace callboard::server {
namespace {

// A message is refused when it is there as a whole. So much of all that is on its way may be held;
// beyond that gRPC lets senders wait, or sends them away. It is not exact.
constexpr size_t kBufferBytesMax = 64 << 20;

// More calls than callers wait at a full queue, so that those of one client may all be among them.
constexpr int kCallsPerConnectionMax = 4096;
// Beyond these a connection takes calls back faster than they can be ended.
constexpr ConnectionCallLimits kConnectionCallLimits = {.open_max = kCallsPerConnectionMax + 512,
                                                        .taken_back_max = 256};

// For a connection to say what it wants.
constexpr absl::Duration kHandshakeWithin = absl::Seconds(10);

constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

// What gRPC itself has to say is mostly about one connection, so never more than a warning.
void LogLineOfGrpc(gpr_log_func_args* line) {
  if (line->severity == GPR_LOG_SEVERITY_DEBUG) {
    base::LogDebug("grpc", "message", {{"text", line->message}});
  } else if (line->severity == GPR_LOG_SEVERITY_INFO) {
    base::LogInfo("grpc", "message", {{"text", line->message}});
  } else {
    base::LogWarning("grpc", "message", {{"text", line->message}});
  }
}

// Connections die silently behind proxies and sleeping laptops: both sides ask every ten seconds.
void SetKeepalive(absl::Duration connection_age_max, grpc::ServerBuilder& builder) {
  const auto set = [&builder](const char* name, absl::Duration value) {
    builder.AddChannelArgument(name, static_cast<int>(absl::ToInt64Milliseconds(value)));
  };
  set(GRPC_ARG_KEEPALIVE_TIME_MS, absl::Seconds(10));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeout);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, absl::Seconds(5));
  if (connection_age_max != absl::InfiniteDuration()) {
    set(GRPC_ARG_MAX_CONNECTION_AGE_MS, connection_age_max);
    set(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, absl::Minutes(5));
  }
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
}

// What clients get at most, whether they mean well or not.
//
// gRPC inflates a compressed message before it looks at its size, and 65 KB of gzip become 64 MiB.
// So no compression is accepted: a call that uses one ends with UNIMPLEMENTED. Its handler may have
// been called by then, and must not find a message that was inflated all the same.
void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetMaxReceiveMessageSize(core::kMessageBytesMax);
  builder.SetMaxSendMessageSize(core::kMessageBytesMax);
  builder.SetResourceQuota(grpc::ResourceQuota("callboard").Resize(kBufferBytesMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(kHandshakeWithin)));
}

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> Interceptors(
    const GrpcServerOptions& options, const std::vector<ServedService>& services,
    ConnectionCalls& calls) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(NewConnectionCallsInterceptorFactory(calls));
  interceptors.push_back(NewErrorDetailInterceptorFactory());
  if (options.metrics != nullptr) {
    CHECK(options.clock != nullptr);
    std::vector<std::string> names;
    for (const ServedService& served : services) names.push_back(served.name);
    interceptors.push_back(
        NewRpcMetricsInterceptorFactory(names, *options.metrics, *options.clock));
  }
  return interceptors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, const std::vector<ServedService>& services) {
  gpr_set_log_function(LogLineOfGrpc);
  wire::WatchParsing();
  grpc::EnableDefaultHealthCheckService(true);
  ASSIGN_OR_RETURN(std::unique_ptr<ConnectionAcceptor> acceptor,
                   ConnectionAcceptor::Listen(options.listen, options.descriptors_max));
  auto calls = std::make_unique<ConnectionCalls>(
      kConnectionCallLimits,
      [&acceptor = *acceptor](const std::string& peer) { acceptor.Disconnect(peer); });
  grpc::ServerBuilder builder;
  std::unique_ptr<Door> door = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  SetLimits(builder);
  SetKeepalive(options.connection_age_max, builder);
  // Statistics that nobody can ask for, and answers that nobody compresses.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.experimental().SetInterceptorCreators(Interceptors(options, services, *calls));
  std::vector<std::string> names = {grpc::health::v1::Health::service_full_name()};
  for (const ServedService& served : services) {
    builder.RegisterService(served.service);
    names.push_back(served.name);
  }
  auto reflection = std::make_unique<Reflection>(std::move(names));
  reflection->Register(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC does not start");
  for (const ServedService& served : services) {
    server->GetHealthCheckService()->SetServingStatus(served.name, true);
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(acceptor), std::move(calls),
                                                    std::move(door), std::move(reflection),
                                                    std::move(server)));
}

GrpcServer::GrpcServer(std::unique_ptr<ConnectionAcceptor> acceptor,
                       std::unique_ptr<ConnectionCalls> calls, std::unique_ptr<Door> door,
                       std::unique_ptr<Reflection> reflection, std::unique_ptr<grpc::Server> server)
    : acceptor_(std::move(acceptor)),
      calls_(std::move(calls)),
      door_(std::move(door)),
      reflection_(std::move(reflection)),
      server_(std::move(server)) {
  acceptor_->Start([this](int socket) {
    // As gRPC's own listener does with these keepalives.
    const auto timeout_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(kKeepaliveTimeout));
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    Door::NewConnectionParameters connection;
    connection.fd = socket;
    door_->HandleNewConnection(&connection);
  });
}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

void GrpcServer::SetServing(bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(serving);
}

void GrpcServer::StopServing() { server_->GetHealthCheckService()->Shutdown(); }

void GrpcServer::Shutdown(absl::Duration grace) {
  acceptor_->Stop();
  server_->Shutdown(gpr_time_from_millis(absl::ToInt64Milliseconds(grace), GPR_TIMESPAN));
  server_->Wait();
}

}  // namespace callboard::server
