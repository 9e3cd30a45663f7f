// Cancellation of work.
//
// One std::stop_token is passed down the call chain. Stopped work returns an AbortError(), which
// callers can tell from a failure.

#ifndef CALLBOARD_LIBS_FLOW_ABORT_H_
#define CALLBOARD_LIBS_FLOW_ABORT_H_

#include <stop_token>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::flow {

// Returns CANCELLED with the reason ABORT.
absl::Status AbortError(absl::string_view message = "aborted");

// Returns whether `status` is an AbortError(); the message does not matter. CANCELLED with another
// reason is a failure, for example of an RPC whose peer left.
bool IsAbortError(const absl::Status& status);

// Returns AbortError() once `stop` has been requested. Long work calls this before each step, and
// right before it makes a result visible, such as promoting a finished file.
absl::Status CheckNotAborted(const std::stop_token& stop, absl::string_view message = "aborted");

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_ABORT_H_
