// Error details that an absl::Status carries to the caller: a machine-readable reason with
// metadata, a retry delay, and the invalid fields.
//
//   return WithRetryAfter(
//       WithReason(absl::ResourceExhaustedError("queue is at capacity (50 tasks)"), "QUEUE_FULL",
//                  {{"depth", "50"}}),
//       absl::Seconds(2));
//
// Helpers that propagate errors: RETURN_IF_ERROR, ASSIGN_OR_RETURN.

#ifndef CALLBOARD_LIBS_BASE_ERROR_H_
#define CALLBOARD_LIBS_BASE_ERROR_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::base {

struct ErrorDetails {
  // UPPER_SNAKE; empty if there is none.
  std::string reason;
  // The variable parts of the message, for programs.
  std::map<std::string, std::string> metadata;
  // Present if the same call may succeed after this delay.
  std::optional<absl::Duration> retry_after;
  // The problem of each invalid field of the request.
  std::map<std::string, std::string> field_violations;
};

// Return `error` with the detail added. REQUIRES: !error.ok().
absl::Status WithReason(absl::Status error, absl::string_view reason,
                        const std::map<std::string, std::string>& metadata = {});
absl::Status WithRetryAfter(absl::Status error, absl::Duration wait);
absl::Status WithFieldViolation(absl::Status error, absl::string_view field,
                                absl::string_view description);

// Return `status` with "`context`: " before its message, or "; `advice`" after it, and the same
// code and details. Return OK for OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);
absl::Status WithAdvice(const absl::Status& status, absl::string_view advice);

// Returns INVALID_ARGUMENT for one field of a request, with the reason INVALID_FIELD.
absl::Status InvalidField(absl::string_view field, absl::string_view message);

// Returns the details that were added to `error`.
ErrorDetails GetErrorDetails(const absl::Status& error);

}  // namespace callboard::base

// Evaluates `expression` (an absl::Status). Returns it from the enclosing function if it is an
// error.
#define RETURN_IF_ERROR(expression)                                             \
  do {                                                                          \
    if (absl::Status callboard_status = (expression); !callboard_status.ok()) { \
      return callboard_status;                                                  \
    }                                                                           \
  } while (false)

// Evaluates `expression` (an absl::StatusOr<T>). Moves its value into `target`, which may be a
// declaration, or returns its error from the enclosing function.
#define ASSIGN_OR_RETURN(target, expression) \
  CALLBOARD_ASSIGN_OR_RETURN(CALLBOARD_UNIQUE_NAME(callboard_value_), target, expression)

#define CALLBOARD_ASSIGN_OR_RETURN(value, target, expression) \
  auto value = (expression);                                  \
  if (!value.ok()) return std::move(value).status();          \
  target = *std::move(value)
#define CALLBOARD_UNIQUE_NAME(prefix) CALLBOARD_JOIN(prefix, __LINE__)
#define CALLBOARD_JOIN(a, b) CALLBOARD_JOIN_EXPANDED(a, b)
#define CALLBOARD_JOIN_EXPANDED(a, b) a##b

#endif  // CALLBOARD_LIBS_BASE_ERROR_H_
