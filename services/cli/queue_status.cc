#include "services/cli/queue_status.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/status_macros.h"
#include "libs/wire/enum_text.h"
#include "services/cli/answer_text.h"
#include "services/cli/peer_call.h"

namespace callboard::cli {
namespace {

std::string Bound(const v1::QueueStatus& status) {
  return status.max_size() == 0 ? "no bound" : absl::StrCat("of ", status.max_size());
}

std::string Doing(const v1::QueueStatus& status) {
  if (status.draining()) return "draining: accepts nothing";
  return status.paused() ? "paused: accepts, does not dispatch" : "accepts and dispatches";
}

// A line that says who set a switch, when and why; empty when that is not known.
std::string Cause(absl::string_view what, bool is_known, const v1::QueueSwitch& cause) {
  if (!is_known) return "";
  return absl::StrCat("  ", what, "by ", cause.who(), " at ", TimeText(cause.at()),
                      cause.why().empty() ? "" : ": ", Plain(cause.why()), "\n");
}

}  // namespace

std::string QueueStatusTable(const v1::QueueStatus& status) {
  return absl::StrCat(
      "queue      ", Doing(status), "\n",                                                     //
      Cause("paused   ", status.has_pause(), status.pause()),                                 //
      Cause("drained  ", status.has_drain(), status.drain()),                                 //
      "pending    ", status.depth(), " ", Bound(status), ", when full: ",                     //
      wire::EnumText(*v1::QueuePolicy_descriptor(), status.policy()), "\n",                   //
      "  ready    ", status.ready(), "\n",                                                    //
      "  delayed  ", status.delayed(), "\n",                                                  //
      "  oldest   ", absl::FormatDuration(absl::Seconds(status.oldest_age_seconds())), "\n",  //
      "running    ", status.in_flight(), " of ", status.max_in_flight(), "\n",                //
      "waiting    ", status.waiting(), " callers, ", status.tickets(), " tickets\n",          //
      "ended      ", status.counts().completed(), " completed, ", status.counts().failed(),   //
      " failed, ", status.counts().cancelled(), " cancelled\n");
}

absl::StatusOr<std::string> ShowQueueStatus(const config::v1::CliConfig& config) {
  ASSIGN_OR_RETURN(
      const v1::QueueStatus status,
      CallDirector(config, &v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest()));
  return Written(config, status, QueueStatusTable(status));
}

absl::StatusOr<std::string> PauseQueue(const config::v1::CliConfig& config,
                                       const std::string& why) {
  v1::PauseQueueRequest request;
  request.set_why(why);
  ASSIGN_OR_RETURN(const v1::QueueStatus status,
                   CallDirector(config, &v1::QueueService::Stub::PauseQueue, request));
  return Written(config, status, QueueStatusTable(status));
}

absl::StatusOr<std::string> ResumeQueue(const config::v1::CliConfig& config) {
  ASSIGN_OR_RETURN(
      const v1::QueueStatus status,
      CallDirector(config, &v1::QueueService::Stub::ResumeQueue, v1::ResumeQueueRequest()));
  return Written(config, status, QueueStatusTable(status));
}

}  // namespace callboard::cli
