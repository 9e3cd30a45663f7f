#include "services/cli/director_client.h"

#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/config/settings.h"
#include "libs/core/trace.h"
#include "libs/ports/telemetry.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {

std::stop_token InterruptHandler::Defer() {
  deferred_ = true;
  return stop_.get_token();
}

void InterruptHandler::OnSignal() {
  // request_stop() returns false the second time.
  if (deferred_ && stop_.request_stop()) return;
  _exit(static_cast<int>(ExitCode::kInterrupted));
}

}  // namespace callboard::cli

namespace callboard::cli::internal {

Peer DirectorPeer(const config::v1::CliConfig& config) {
  return {.name = "director", .address = config.director().address()};
}

Peer SchedulerPeer(const config::v1::CliConfig& config) {
  return {.name = "scheduler", .address = config.scheduler().address()};
}

std::shared_ptr<grpc::Channel> Connect(const Peer& peer) {
  grpc::ChannelArguments arguments;
  // For long streams: keepalive detects a peer that vanished without closing the connection, and
  // the short backoff finds one that is back soon.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  return grpc::CreateCustomChannel(peer.address, grpc::InsecureChannelCredentials(), arguments);
}

void SetDeadline(const config::v1::CliConfig& config, grpc::ClientContext& context) {
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

absl::Status CallError(const grpc::Status& status, grpc::Channel& channel, const Peer& peer,
                       const config::v1::CliConfig& config) {
  const absl::Status error = wire::FromGrpc(status);
  // The peer's own errors have a reason; those of gRPC do not.
  if (!base::GetErrorDetails(error).reason.empty()) return error;
  if (absl::IsDeadlineExceeded(error) &&
      channel.GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
    return absl::DeadlineExceededError(absl::StrCat(
        "no answer within ", absl::FormatDuration(*wire::FromProto(config.timeout()))));
  }
  const bool is_unreachable = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  return is_unreachable ? UnreachableError(error, peer) : error;
}

namespace {

// Wait before a stream is opened again on a connection that still works, and longest wait for a
// lost connection to be back before it is reported.
constexpr absl::Duration kReconnectWait = absl::Seconds(1);

gpr_timespec GprTimeout(absl::Duration wait) {
  return gpr_time_from_millis(absl::ToInt64Milliseconds(wait), GPR_TIMESPAN);
}

}  // namespace

StreamSource::StreamSource(const config::v1::CliConfig& config)
    : config_(config), director_(DirectorPeer(config)), channel_(Connect(director_)) {}

absl::Status StreamSource::AwaitConnection() {
  const absl::Duration limit = *wire::FromProto(config_.timeout());
  grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
  while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
    if (!channel_->WaitForStateChange(state, GprTimeout(limit))) {
      return UnreachableError(
          absl::DeadlineExceededError(absl::StrCat("not within ", absl::FormatDuration(limit))),
          director_);
    }
    state = channel_->GetState(/*try_to_connect=*/true);
  }
  was_reached_ = state == GRPC_CHANNEL_READY;
  return absl::OkStatus();
}

absl::Status StreamSource::CallError(const grpc::Status& end) const {
  return internal::CallError(end, *channel_, director_, config_);
}

bool StreamSource::CanResumeAfter(const absl::Status& error) const {
  // CANCELLED comes from the end of the server: this program cancels no stream that it resumes.
  return was_reached_ && (absl::IsUnavailable(error) || absl::IsCancelled(error) ||
                          base::GetErrorDetails(error).reason == "SLOW_READER");
}

bool StreamSource::ReconnectsQuickly() {
  channel_->WaitForStateChange(GRPC_CHANNEL_READY, GprTimeout(kReconnectWait));
  return channel_->WaitForConnected(GprTimeout(kReconnectWait));
}

void StreamSource::AwaitReconnection() {
  channel_->WaitForConnected(gpr_inf_future(GPR_CLOCK_REALTIME));
}

std::string StreamSource::DisconnectNote() const {
  return absl::StrCat("lost the director at ", director_.address, "; waiting for it");
}

}  // namespace callboard::cli::internal
