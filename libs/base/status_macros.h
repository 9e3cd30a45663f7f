// Passing errors up: RETURN_IF_ERROR, ASSIGN_OR_RETURN, Annotate.
#ifndef CALLBOARD_LIBS_BASE_STATUS_MACROS_H_
#define CALLBOARD_LIBS_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

// Returns the error of `expression` (an absl::Status) from the enclosing function, if it is one.
#define RETURN_IF_ERROR(expression)                                             \
  do {                                                                          \
    if (absl::Status callboard_status = (expression); !callboard_status.ok()) { \
      return callboard_status;                                                  \
    }                                                                           \
  } while (false)

// Evaluates `expression` (an absl::StatusOr<T>) and moves its value into `target`, which may be a
// declaration; returns its error from the enclosing function otherwise.
#define ASSIGN_OR_RETURN(target, expression) \
  CALLBOARD_ASSIGN_OR_RETURN(CALLBOARD_UNIQUE_NAME(callboard_value_), target, expression)

#define CALLBOARD_ASSIGN_OR_RETURN(value, target, expression) \
  auto value = (expression);                                  \
  if (!value.ok()) return std::move(value).status();          \
  target = *std::move(value)
#define CALLBOARD_UNIQUE_NAME(prefix) CALLBOARD_JOIN(prefix, __LINE__)
#define CALLBOARD_JOIN(a, b) CALLBOARD_JOIN_EXPANDED(a, b)
#define CALLBOARD_JOIN_EXPANDED(a, b) a##b

namespace callboard::base {

// `status` with "`context`: " before its message; code and payloads stay. OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&annotated](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_STATUS_MACROS_H_
