#include "libs/adapters/noop_runner/noop_runner.h"

namespace callboard::adapters {

absl::Status NoopRunner::Check(const core::TaskSpec&) const { return absl::OkStatus(); }

void NoopRunner::Start(ports::RunOrder order) {
  watcher_.OnEnded(order.token, {.end = core::RunResult::End::kCompleted, .exit_code = 0});
}

void NoopRunner::Stop(const core::FenceToken&) {}
void NoopRunner::Kill(const core::FenceToken&) {}
void NoopRunner::SetFence(const core::FenceToken&, absl::Duration) {}
void NoopRunner::Delivered(const core::FenceToken&, uint64_t) {}

}  // namespace callboard::adapters
