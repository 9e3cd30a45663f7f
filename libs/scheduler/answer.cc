#include "libs/scheduler/answer.h"

#include <string>

#include "libs/base/error.h"
#include "libs/scheduler/director_link.h"

namespace callboard::scheduler {

Answer MeaningOf(const absl::Status& status) {
  const std::string reason = status.ok() ? "" : base::DetailsOf(status).reason;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Answer::kAccepted;
    case absl::StatusCode::kAlreadyExists:
      return Answer::kOtherContent;
    case absl::StatusCode::kFailedPrecondition:
      return reason == "OVERLAP" ? Answer::kOverlap : Answer::kRefused;
    case absl::StatusCode::kResourceExhausted:
      if (reason == "QUEUE_FULL" || reason == "TOO_MANY_WAITERS") return Answer::kFull;
      return reason == "STORE_FULL" ? Answer::kNotNow : Answer::kUnknown;
    case absl::StatusCode::kUnavailable:
      if (reason == kDirectorUnreachable) return Answer::kNotSent;
      if (reason == "QUEUE_DRAINING") return Answer::kDraining;
      return reason.empty() || reason == "OUTCOME_UNKNOWN" ? Answer::kUnknown : Answer::kNotNow;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return Answer::kRefused;
    default:
      return Answer::kUnknown;
  }
}

std::string QueueIdIn(const absl::Status& status) {
  const base::ErrorDetails details = base::DetailsOf(status);
  const auto found = details.metadata.find("queue_id");
  return found == details.metadata.end() ? "" : found->second;
}

}  // namespace callboard::scheduler
