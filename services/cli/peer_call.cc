#include "services/cli/peer_call.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/config/settings.h"
#include "libs/core/trace_context.h"
#include "libs/ports/tracing.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"
#include "services/cli/exit_code.h"

namespace callboard::cli::internal {

Peer DirectorOf(const config::v1::CliConfig& config) {
  return {.name = "director", .address = config.director().address()};
}

Peer SchedulerOf(const config::v1::CliConfig& config) {
  return {.name = "scheduler", .address = config.scheduler().address()};
}

std::shared_ptr<grpc::Channel> Connect(const Peer& peer) {
  grpc::ChannelArguments arguments;
  // For calls that last: a peer that is gone without a word is noticed, and one that is back is
  // found soon.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  return grpc::CreateCustomChannel(peer.address, grpc::InsecureChannelCredentials(), arguments);
}

void LimitTo(const config::v1::CliConfig& config, grpc::ClientContext& context) {
  context.set_deadline(gpr_time_from_millis(
      absl::ToInt64Milliseconds(*wire::FromProto(config.timeout())), GPR_TIMESPAN));
}

void JoinTrace(grpc::ClientContext& context) {
  const std::map<std::string, std::string> environment = config::ProcessEnvironment();
  const auto found = environment.find("TRACEPARENT");
  if (found == environment.end()) return;
  const std::optional<core::SpanContext> parent = core::ParseTraceparent(found->second);
  if (parent.has_value())
    context.AddMetadata(ports::kTraceparent, core::FormatTraceparent(*parent));
}

absl::Status ErrorOf(const grpc::Status& status, grpc::Channel& channel, const Peer& peer,
                     const config::v1::CliConfig& config) {
  const absl::Status error = wire::FromGrpc(status);
  // What the peer says itself carries a reason.
  if (!base::DetailsOf(error).reason.empty()) return error;
  if (absl::IsDeadlineExceeded(error) &&
      channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
    return absl::DeadlineExceededError(absl::StrCat(
        "no answer within ", absl::FormatDuration(*wire::FromProto(config.timeout()))));
  }
  const bool silent = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  return silent ? Unreachable(error, peer) : error;
}

}  // namespace callboard::cli::internal
