#include "libs/core/queue.h"

#include <algorithm>
#include <cmath>

namespace callboard::core {
namespace {

constexpr absl::Duration kDecayTime = absl::Minutes(1);
constexpr absl::Duration kRetryAfterMin = absl::Seconds(1);
constexpr absl::Duration kRetryAfterMax = absl::Minutes(1);
constexpr absl::Duration kRetryAfterUnmeasured = absl::Seconds(5);

}  // namespace

void DrainRate::Record(absl::Duration now) {
  rate_ = PerSecond(now) + 1 / absl::ToDoubleSeconds(kDecayTime);
  recorded_at_ = now;
}

double DrainRate::PerSecond(absl::Duration now) const {
  if (rate_ == 0) return 0;
  return rate_ * std::exp(-absl::FDivDuration(now - recorded_at_, kDecayTime));
}

absl::Duration DrainRate::RetryAfter(absl::Duration now) const {
  const double rate = PerSecond(now);
  if (rate == 0) return kRetryAfterUnmeasured;
  return std::clamp(absl::Seconds(1 / rate), kRetryAfterMin, kRetryAfterMax);
}

}  // namespace callboard::core
