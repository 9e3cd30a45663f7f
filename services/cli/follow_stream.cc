#include "services/cli/follow_stream.h"

#include <grpc/support/time.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/wire/time.h"
#include "services/cli/exit_code.h"

namespace callboard::cli::internal {
namespace {

// A director that answers, but not this, is asked again after so long.
constexpr absl::Duration kPause = absl::Seconds(1);

gpr_timespec In(absl::Duration wait) {
  return gpr_time_from_millis(absl::ToInt64Milliseconds(wait), GPR_TIMESPAN);
}

}  // namespace

StreamSource::StreamSource(const config::v1::CliConfig& config)
    : config_(config), director_(DirectorOf(config)), channel_(Connect(director_)) {}

absl::Status StreamSource::AwaitConnection() {
  const absl::Duration limit = *wire::FromProto(config_.timeout());
  grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
  while (state == GRPC_CHANNEL_IDLE || state == GRPC_CHANNEL_CONNECTING) {
    if (!channel_->WaitForStateChange(state, In(limit))) {
      return Unreachable(
          absl::DeadlineExceededError(absl::StrCat("not within ", absl::FormatDuration(limit))),
          director_);
    }
    state = channel_->GetState(/*try_to_connect=*/true);
  }
  was_reached_ = state == GRPC_CHANNEL_READY;
  return absl::OkStatus();
}

absl::Status StreamSource::ErrorOf(const grpc::Status& end) const {
  return internal::ErrorOf(end, *channel_, director_, config_);
}

bool StreamSource::IsBreak(const absl::Status& error) const {
  // Nobody but the server's end cancels a stream here.
  return was_reached_ && (absl::IsUnavailable(error) || absl::IsCancelled(error) ||
                          base::DetailsOf(error).reason == "SLOW_READER");
}

bool StreamSource::ReturnsAtOnce() {
  channel_->WaitForStateChange(GRPC_CHANNEL_READY, In(kPause));
  return channel_->WaitForConnected(In(kPause));
}

void StreamSource::AwaitReturn() { channel_->WaitForConnected(gpr_inf_future(GPR_CLOCK_REALTIME)); }

std::string StreamSource::BreakNote() const {
  return absl::StrCat("lost the director at ", director_.address, "; waiting for it");
}

}  // namespace callboard::cli::internal
