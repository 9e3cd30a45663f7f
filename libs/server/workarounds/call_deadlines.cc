#include "libs/server/workarounds/call_deadlines.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <vector>

#include "libs/system/system.h"

namespace callboard::server::internal {

CallDeadlines& CallDeadlines::Global() {
  static const system::SystemClock& clock = *new system::SystemClock;
  static CallDeadlines& deadlines = *new CallDeadlines(clock);
  return deadlines;
}

CallDeadlines::Key CallDeadlines::Add(absl::Duration wait, std::function<void()> on_elapsed) {
  base::MutexLock lock(mutex_);
  const Key key = {clock_.MonotonicNow() + wait, ++last_number_};
  deadlines_.emplace(key, std::move(on_elapsed));
  if (key.first < alarm_at_) Arm();
  return key;
}

void CallDeadlines::Remove(const Key& key) {
  base::MutexLock lock(mutex_);
  deadlines_.erase(key);
}

void CallDeadlines::Arm() {
  alarm_at_ = deadlines_.begin()->first.first;
  const absl::Duration wait = std::max(alarm_at_ - clock_.MonotonicNow(), absl::ZeroDuration());
  alarm_ = std::make_unique<grpc::Alarm>();
  // Rounded up: an early alarm would only be set again.
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
    while (!deadlines_.empty() && deadlines_.begin()->first.first <= now) {
      elapsed.push_back(std::move(deadlines_.begin()->second));
      deadlines_.erase(deadlines_.begin());
    }
    alarm_at_ = absl::InfiniteDuration();
    if (!deadlines_.empty()) Arm();
  }
  for (const std::function<void()>& run : elapsed) run();
}

}  // namespace callboard::server::internal
