// Details that travel with an absl::Status from the rule that refused to the caller it answers:
// a machine-readable reason, values for it, how long to wait, and which fields were wrong.
//
//   return WithRetryAfter(
//       WithReason(absl::ResourceExhaustedError("queue is at capacity (50 tasks)"), "QUEUE_FULL",
//                  {{"depth", "50"}}),
//       absl::Seconds(2));
#ifndef CALLBOARD_LIBS_BASE_ERROR_H_
#define CALLBOARD_LIBS_BASE_ERROR_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::base {

struct ErrorDetails {
  // UPPER_SNAKE; empty when none was given.
  std::string reason;
  // What is dynamic in the message, for programs.
  std::map<std::string, std::string> metadata;
  // Present when the same call may succeed after waiting this long.
  std::optional<absl::Duration> retry_after;
  // What is wrong with each named field of the request.
  std::map<std::string, std::string> field_violations;
};

// Each returns `error` with the detail added. REQUIRES: !error.ok().
absl::Status WithReason(absl::Status error, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata = {});
absl::Status WithRetryAfter(absl::Status error, absl::Duration wait);
absl::Status WithFieldViolation(absl::Status error, absl::string_view field,
                                absl::string_view description);

// INVALID_ARGUMENT for one field of a request, with the reason INVALID_FIELD.
absl::Status InvalidField(absl::string_view field, absl::string_view message);

ErrorDetails DetailsOf(const absl::Status& error);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_ERROR_H_
