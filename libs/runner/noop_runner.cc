#include "libs/runner/noop_runner.h"

namespace callboard::runner {

absl::Status NoopRunner::Check(const core::RunSpec&) const { return absl::OkStatus(); }

void NoopRunner::Start(ports::RunRequest request) {
  observer_.OnEnded(request.token, {.end = core::RunResult::End::kCompleted, .exit_code = 0});
}

void NoopRunner::Stop(const core::FenceToken&) {}
void NoopRunner::Kill(const core::FenceToken&) {}
void NoopRunner::MoveFence(const core::FenceToken&, absl::Duration) {}
void NoopRunner::AcknowledgeOutput(const core::FenceToken&, uint64_t) {}

}  // namespace callboard::runner
