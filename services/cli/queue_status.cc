#include "services/cli/queue_status.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/json.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"
#include "services/cli/exit_code.h"

namespace callboard::cli {
namespace {

std::string Bound(const v1::QueueStatus& status) {
  return status.max_size() == 0 ? "no bound" : absl::StrCat("of ", status.max_size());
}

std::string Doing(const v1::QueueStatus& status) {
  if (status.draining()) return "draining: accepts nothing";
  return status.paused() ? "paused: accepts, does not dispatch" : "accepts and dispatches";
}

// An error of the director itself carries a reason; a silent one has none.
bool IsAnswer(const absl::Status& status) { return !base::DetailsOf(status).reason.empty(); }

}  // namespace

std::string QueueStatusTable(const v1::QueueStatus& status) {
  const auto& policy = *v1::QueuePolicy_descriptor()->FindValueByNumber(status.policy());
  return absl::StrCat(
      "queue      ", Doing(status), "\n",                                                     //
      "pending    ", status.depth(), " ", Bound(status), ", when full: ",                     //
      wire::EnumText(policy), "\n",                                                           //
      "  ready    ", status.ready(), "\n",                                                    //
      "  delayed  ", status.delayed(), "\n",                                                  //
      "  oldest   ", absl::FormatDuration(absl::Seconds(status.oldest_age_seconds())), "\n",  //
      "running    ", status.in_flight(), " of ", status.max_in_flight(), "\n",                //
      "waiting    ", status.waiting(), " callers, ", status.tickets(), " tickets\n",          //
      "ended      ", status.counts().completed(), " completed, ", status.counts().failed(),   //
      " failed, ", status.counts().cancelled(), " cancelled\n");
}

absl::StatusOr<std::string> ShowQueueStatus(const config::v1::CliConfig& config) {
  const std::string& address = config.director().address();
  const auto stub =
      v1::QueueService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_millis(
      absl::ToInt64Milliseconds(*wire::FromProto(config.timeout())), GPR_TIMESPAN));
  v1::QueueStatus status;
  const absl::Status answer =
      wire::FromGrpc(stub->GetQueueStatus(&context, v1::GetQueueStatusRequest(), &status));
  if (!answer.ok()) return IsAnswer(answer) ? answer : Unreachable(answer, address);
  if (config.output() == config::v1::CliConfig::OUTPUT_JSON) {
    return absl::StrCat(wire::ToJson(status), "\n");
  }
  return QueueStatusTable(status);
}

}  // namespace callboard::cli
