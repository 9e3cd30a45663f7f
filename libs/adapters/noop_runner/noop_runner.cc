#include "libs/adapters/noop_runner/noop_runner.h"

#include <utility>

namespace callboard::adapters {

NoopRunner::NoopRunner(ports::RunWatcher& watcher) : watcher_(watcher) {
  thread_ = std::thread([this] { EndRuns(); });
}

NoopRunner::~NoopRunner() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

absl::Status NoopRunner::Check(const core::TaskSpec&) const { return absl::OkStatus(); }

void NoopRunner::Start(ports::RunOrder order) {
  base::MutexLock lock(mutex_);
  started_.push_back(order.token);
  changed_.NotifyOne();
}

void NoopRunner::Stop(const core::FenceToken&) {}
void NoopRunner::SetFence(const core::FenceToken&, absl::Duration) {}
void NoopRunner::Delivered(const core::FenceToken&, uint64_t) {}

void NoopRunner::EndRuns() {
  std::vector<core::FenceToken> ended;
  while (true) {
    {
      base::MutexLock lock(mutex_);
      while (started_.empty() && !stopping_) changed_.Wait(mutex_);
      if (started_.empty()) return;
      ended.swap(started_);
    }
    for (const core::FenceToken& token : ended) {
      watcher_.OnEnded(token, {.end = core::RunResult::End::kCompleted, .exit_code = 0});
    }
    ended.clear();
  }
}

}  // namespace callboard::adapters
