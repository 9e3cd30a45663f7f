#include "services/cli/director_call.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"
#include "services/cli/exit_code.h"

namespace callboard::cli::internal {

std::shared_ptr<grpc::Channel> Connect(const config::v1::CliConfig& config) {
  return grpc::CreateChannel(config.director().address(), grpc::InsecureChannelCredentials());
}

void LimitTo(const config::v1::CliConfig& config, grpc::ClientContext& context) {
  context.set_deadline(gpr_time_from_millis(
      absl::ToInt64Milliseconds(*wire::FromProto(config.timeout())), GPR_TIMESPAN));
}

absl::Status ErrorOf(const grpc::Status& status, const config::v1::CliConfig& config) {
  const absl::Status error = wire::FromGrpc(status);
  // What the director says itself carries a reason.
  const bool silent = base::DetailsOf(error).reason.empty() &&
                      (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error));
  return silent ? Unreachable(error, config.director().address()) : error;
}

}  // namespace callboard::cli::internal
