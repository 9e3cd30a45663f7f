#include "libs/server/call.h"

#include <grpc/support/time.h>

#include "absl/strings/str_cat.h"
#include "google/rpc/status.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/server/bidi_call.h"

namespace callboard::server::internal {

std::optional<absl::Duration> OwnDeadline(const grpc::CallbackServerContext& context,
                                          absl::Duration deadline_max) {
  const gpr_timespec left = gpr_convert_clock_type(context.raw_deadline(), GPR_TIMESPAN);
  // gRPC itself ends a call at its caller's deadline.
  if (gpr_time_to_millis(left) <= absl::ToInt64Milliseconds(deadline_max)) return std::nullopt;
  return deadline_max;
}

void SetAlarm(grpc::Alarm& alarm, absl::Duration wait, std::function<void()> on_elapsed) {
  alarm.Set(gpr_time_from_millis(absl::ToInt64Milliseconds(wait), GPR_TIMESPAN),
            [on_elapsed = std::move(on_elapsed)](bool elapsed) {
              if (elapsed) on_elapsed();
            });
}

absl::Status DeadlineExceeded(absl::Duration deadline_max) {
  return base::WithReason(absl::DeadlineExceededError(
                              absl::StrCat("no answer within ", absl::FormatDuration(deadline_max),
                                           "; whether the call took effect is unknown")),
                          "DEADLINE_EXCEEDED");
}

absl::Status CallerLeft() { return absl::CancelledError("the caller has left"); }

absl::Status SlowReader() {
  return base::WithReason(
      absl::ResourceExhaustedError("the stream is read too slowly, and more waits for its reader "
                                   "than is kept; open it again"),
      "SLOW_READER");
}

void AbandonmentHook::Set(std::function<void()> hook) {
  {
    base::MutexLock lock(mutex_);
    if (!ending_.has_value()) {
      hook_ = std::move(hook);
      return;
    }
    if (*ending_ == Ending::kAnswered) return;
  }
  hook();
}

void AbandonmentHook::End(Ending ending) {
  std::function<void()> hook;
  {
    base::MutexLock lock(mutex_);
    CHECK(!ending_.has_value());
    ending_ = ending;
    hook = std::exchange(hook_, nullptr);
  }
  if (ending == Ending::kAbandoned && hook) hook();
}

// clang's thread-safety analysis sees templates only where they are instantiated.
template class UnaryReactor<google::rpc::Status>;
template class StreamReactor<google::rpc::Status>;
template class BidiReactor<google::rpc::Status, google::rpc::Status>;

}  // namespace callboard::server::internal
