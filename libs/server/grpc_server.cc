#include "libs/server/grpc_server.h"

#include <google/protobuf/descriptor.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/core/limits.h"
#include "libs/server/workarounds/connection_acceptor.h"
#include "libs/server/workarounds/read_pause.h"
#include "libs/telemetry/rpc_metrics.h"
#include "libs/wire/fields.h"
#include "libs/wire/status.h"

namespace callboard::server {

// ---- Shares of the descriptors ------------------------------------------------------------------

namespace {

// Reserved for the store and for outgoing connections, and once more for HTTP. RocksDB may have 128
// open tables.
constexpr rlim_t kReserved = 256;

// Used if the system has no limit.
constexpr rlim_t kDescriptorsMax = 1 << 20;

}  // namespace

DescriptorShares ShareDescriptors() {
  rlimit limit = {};
  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  const rlim_t total = std::min(limit.rlim_cur, kDescriptorsMax);
  const rlim_t reserved = std::min(kReserved, total / 4);
  return {.grpc = static_cast<int>(total - 2 * reserved),
          .http = static_cast<int>(total - reserved)};
}

// ---- Error details ------------------------------------------------------------------------------

namespace {

using grpc::experimental::InterceptionHookPoints;

// Returns the request type of a method in this binary, such as
// /callboard.v1.QueueService/GetTask, or null.
const google::protobuf::Descriptor* RequestType(absl::string_view method) {
  const auto* const found = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
      absl::StrReplaceAll(absl::StripPrefix(method, "/"), {{"/", "."}}));
  return found == nullptr ? nullptr : found->input_type();
}

class ErrorDetailInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit ErrorDetailInterceptor(const char* method) : method_(method) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    // For a method with one request, null means that it did not parse. For a stream of requests,
    // null is also their end; Explain() uses parse_error_ only if gRPC reports UNIMPLEMENTED.
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() == nullptr) {
      const google::protobuf::Descriptor* const request = RequestType(method_);
      if (request != nullptr) parse_error_ = wire::ParseError(*request);
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (!status.ok() && status.error_details().empty()) {
        methods->ModifySendStatus(wire::ToGrpc(Explain(wire::FromGrpc(status))));
      }
    }
    methods->Proceed();
  }

 private:
  absl::Status Explain(const absl::Status& error) const {
    if (!absl::IsUnimplemented(error) || !error.message().empty()) return error;
    // gRPC answers a request that does not parse in the same way as an unknown method.
    if (!parse_error_.ok()) return parse_error_;
    return absl::UnimplementedError(
        absl::StrCat(base::EscapeForError(absl::StripPrefix(method_, "/")),
                     " is not part of this version (", base::kVersion, ")"));
  }

  // Owned by gRPC; outlives the call.
  const char* const method_;
  absl::Status parse_error_;
};

class ErrorDetailInterceptorFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    return new ErrorDetailInterceptor(info->method());
  }
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewErrorDetailInterceptorFactory() {
  return std::make_unique<ErrorDetailInterceptorFactory>();
}

// ---- GrpcServer ---------------------------------------------------------------------------------

namespace {

// Memory for incoming messages. gRPC can reject a message only when all of it has arrived. Above
// this total, gRPC makes senders wait or rejects them. The limit is approximate.
constexpr size_t kBufferBytesMax = 64 << 20;

// Larger than the number of callers that may wait at a full queue, so that all of them may belong
// to one client.
constexpr int kCallsPerConnectionMax = 4096;
// Above these, a connection resets calls faster than they can be ended.
constexpr ConnectionCallLimits kConnectionCallLimits = {.open_max = kCallsPerConnectionMax + 512,
                                                        .reset_max = 256};

// The time for a new connection to complete its HTTP/2 handshake.
constexpr absl::Duration kHandshakeTimeout = absl::Seconds(10);

constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(5);

// Forwards gRPC's log. Its errors are mostly about one connection, so they become warnings.
void LogGrpcLine(gpr_log_func_args* line) {
  if (line->severity == GPR_LOG_SEVERITY_DEBUG) {
    base::LogDebug("grpc", "message", {{"text", line->message}});
  } else if (line->severity == GPR_LOG_SEVERITY_INFO) {
    base::LogInfo("grpc", "message", {{"text", line->message}});
  } else {
    base::LogWarning("grpc", "message", {{"text", line->message}});
  }
}

// Connections may die silently behind proxies and sleeping laptops, so both sides send a ping every
// ten seconds.
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

// Sets the limits that protect the server from faulty and malicious clients.
//
// gRPC decompresses a message before it checks its size, and 65 KB of gzip can become 64 MiB.
// Therefore no compression is accepted: a compressed call ends with UNIMPLEMENTED. Its handler may
// have been called before that, so decompression is disabled too.
void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetMaxReceiveMessageSize(core::kMessageBytesMax);
  builder.SetMaxSendMessageSize(core::kMessageBytesMax);
  builder.SetResourceQuota(grpc::ResourceQuota("callboard").Resize(kBufferBytesMax));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsPerConnectionMax);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(absl::ToInt64Milliseconds(kHandshakeTimeout)));
}

std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
MakeInterceptors(const GrpcServerOptions& options, const std::vector<ServedService>& services,
                 ConnectionCalls& calls) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(NewReadPauseInterceptorFactory(ReadPause::OfProcess()));
  interceptors.push_back(NewConnectionCallsInterceptorFactory(calls));
  interceptors.push_back(NewErrorDetailInterceptorFactory());
  if (options.metrics != nullptr) {
    CHECK(options.clock != nullptr);
    std::vector<std::string> names;
    for (const ServedService& served : services) names.push_back(served.name);
    interceptors.push_back(
        telemetry::NewRpcMetricsInterceptorFactory(names, *options.metrics, *options.clock));
  }
  return interceptors;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    const GrpcServerOptions& options, const std::vector<ServedService>& services) {
  gpr_set_log_function(LogGrpcLine);
  wire::InstallProtobufLogHandler();
  grpc::EnableDefaultHealthCheckService(true);
  ASSIGN_OR_RETURN(std::unique_ptr<ConnectionAcceptor> acceptor,
                   ConnectionAcceptor::Listen(options.listen, options.descriptors_max));
  auto calls = std::make_unique<ConnectionCalls>(
      kConnectionCallLimits,
      [&acceptor = *acceptor](const std::string& peer) { acceptor.Disconnect(peer); });
  grpc::ServerBuilder builder;
  std::unique_ptr<ExternalAcceptor> external_acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          grpc::InsecureServerCredentials());
  SetLimits(builder);
  SetKeepalive(options.connection_age_max, builder);
  // Both are unused: channelz is not served, and responses are not compressed.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.SetContextAllocator(NewUnservedCallCounter(ReadPause::OfProcess()));
  builder.experimental().SetInterceptorCreators(MakeInterceptors(options, services, *calls));
  std::vector<std::string> names = {grpc::health::v1::Health::service_full_name()};
  for (const ServedService& served : services) {
    builder.RegisterService(served.service);
    names.push_back(served.name);
  }
  auto reflection = std::make_unique<Reflection>(std::move(names));
  reflection->Register(builder);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::InternalError("gRPC did not start");
  for (const ServedService& served : services) {
    server->GetHealthCheckService()->SetServingStatus(served.name, true);
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(acceptor), std::move(calls),
                                                    std::move(external_acceptor),
                                                    std::move(reflection), std::move(server)));
}

GrpcServer::GrpcServer(std::unique_ptr<ConnectionAcceptor> acceptor,
                       std::unique_ptr<ConnectionCalls> calls,
                       std::unique_ptr<ExternalAcceptor> external_acceptor,
                       std::unique_ptr<Reflection> reflection, std::unique_ptr<grpc::Server> server)
    : acceptor_(std::move(acceptor)),
      calls_(std::move(calls)),
      external_acceptor_(std::move(external_acceptor)),
      reflection_(std::move(reflection)),
      server_(std::move(server)) {
  acceptor_->Start([this](int socket) {
    // gRPC's listener does the same with these keepalive settings.
    const auto timeout_ms = static_cast<unsigned>(absl::ToInt64Milliseconds(kKeepaliveTimeout));
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    ReadPause::OfProcess().AddSocket(socket);
    ExternalAcceptor::NewConnectionParameters connection;
    connection.fd = socket;
    external_acceptor_->HandleNewConnection(&connection);
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
