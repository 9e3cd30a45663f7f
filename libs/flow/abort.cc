#include "libs/flow/abort.h"

#include "libs/base/error.h"

namespace callboard::flow {
namespace {

constexpr absl::string_view kReason = "ABORT";

}  // namespace

absl::Status AbortError(absl::string_view message) {
  return base::WithReason(absl::CancelledError(message), kReason);
}

bool IsAbortError(const absl::Status& status) {
  return absl::IsCancelled(status) && base::GetErrorDetails(status).reason == kReason;
}

absl::Status CheckNotAborted(const std::stop_token& stop, absl::string_view message) {
  return stop.stop_requested() ? AbortError(message) : absl::OkStatus();
}

}  // namespace callboard::flow
