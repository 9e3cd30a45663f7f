#include "libs/core/answer.h"

#include <string>

#include "libs/base/error.h"

namespace callboard::core {

AnswerMeaning MeaningOf(const absl::Status& answer) {
  const std::string reason = base::DetailsOf(answer).reason;
  switch (answer.code()) {
    case absl::StatusCode::kOk:
      return AnswerMeaning::kAccepted;
    case absl::StatusCode::kAborted:
      return reason == "AGENT_BUSY" ? AnswerMeaning::kBusy : AnswerMeaning::kTransient;
    case absl::StatusCode::kFailedPrecondition:
      return reason == "STALE_ATTEMPT" ? AnswerMeaning::kStale : AnswerMeaning::kRejected;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return AnswerMeaning::kRejected;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return AnswerMeaning::kAgentAtFault;
    default:
      // UNAVAILABLE, INTERNAL, UNKNOWN, DATA_LOSS, RESOURCE_EXHAUSTED, CANCELLED, ALREADY_EXISTS,
      // DEADLINE_EXCEEDED, and codes that do not exist yet.
      return AnswerMeaning::kTransient;
  }
}

bool IsSessionRefusal(const absl::Status& why) {
  return !absl::IsUnavailable(why) && !absl::IsDeadlineExceeded(why) && !absl::IsCancelled(why);
}

}  // namespace callboard::core
