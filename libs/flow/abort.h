// Stopping work that is under way: one std::stop_token from the top down, and an error of its own
// for what was stopped, which is not what failed.
#ifndef CALLBOARD_LIBS_FLOW_ABORT_H_
#define CALLBOARD_LIBS_FLOW_ABORT_H_

#include <stop_token>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::flow {

// CANCELLED with the reason ABORT.
absl::Status AbortError(absl::string_view message = "aborted");

// Whether `status` is an AbortError(), with whatever message. Another CANCELLED is not: it comes
// from somebody who failed.
bool IsAbortError(const absl::Status& status);

// AbortError() once `stop` was requested. Work that takes long asks before each step; who promotes
// a finished file asks right before.
absl::Status CheckNotAborted(const std::stop_token& stop, absl::string_view message = "aborted");

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_ABORT_H_
