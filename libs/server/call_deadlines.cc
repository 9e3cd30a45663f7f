#include "libs/server/call_deadlines.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <vector>

#include "libs/adapters/system_clock/system_clock.h"

namespace callboard::server::internal {

CallDeadlines& CallDeadlines::OfProcess() {
  static const adapters::SystemClock& clock = *new adapters::SystemClock;
  static CallDeadlines& deadlines = *new CallDeadlines(clock);
  return deadlines;
}

CallDeadlines::Key CallDeadlines::Add(absl::Duration wait, std::function<void()> on_elapsed) {
  base::MutexLock lock(mutex_);
  const Key key = {clock_.MonotonicNow() + wait, ++last_};
  waiting_.emplace(key, std::move(on_elapsed));
  if (key.first < alarm_at_) Arm();
  return key;
}

void CallDeadlines::Remove(const Key& key) {
  base::MutexLock lock(mutex_);
  waiting_.erase(key);
}

void CallDeadlines::Arm() {
  alarm_at_ = waiting_.begin()->first.first;
  const absl::Duration wait = std::max(alarm_at_ - clock_.MonotonicNow(), absl::ZeroDuration());
  alarm_ = std::make_unique<grpc::Alarm>();
  // Rounded up: an alarm that is early would only be set again.
  alarm_->Set(gpr_time_from_millis(absl::ToInt64Milliseconds(wait) + 1, GPR_TIMESPAN),
              [this](bool elapsed) {
                if (elapsed) OnAlarm();
              });
}

void CallDeadlines::OnAlarm() {
  std::vector<std::function<void()>> elapsed;
  {
    base::MutexLock lock(mutex_);
    const absl::Duration now = clock_.MonotonicNow();
    while (!waiting_.empty() && waiting_.begin()->first.first <= now) {
      elapsed.push_back(std::move(waiting_.begin()->second));
      waiting_.erase(waiting_.begin());
    }
    alarm_at_ = absl::InfiniteDuration();
    if (!waiting_.empty()) Arm();
  }
  for (const std::function<void()>& run : elapsed) run();
}

}  // namespace callboard::server::internal
