// Matchers for absl::Status and absl::StatusOr.
#ifndef CALLBOARD_LIBS_TESTING_STATUS_MATCHERS_H_
#define CALLBOARD_LIBS_TESTING_STATUS_MATCHERS_H_

#include <gmock/gmock.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/error.h"

namespace callboard::test {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

MATCHER(IsOk, "") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P(StatusIs, code, "has the code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message, "has the code " + absl::StatusCodeToString(code)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(message, std::string(StatusOf(arg).message()),
                                       result_listener);
}

// The reason attached by base::WithReason().
MATCHER_P(HasReason, reason, std::string("has the reason ") + reason) {
  *result_listener << StatusOf(arg).ToString();
  return base::GetErrorDetails(StatusOf(arg)).reason == reason;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_STATUS_MATCHERS_H_
