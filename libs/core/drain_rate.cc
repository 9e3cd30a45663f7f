#include "libs/core/drain_rate.h"

#include <algorithm>
#include <cmath>

namespace callboard::core {
namespace {

constexpr absl::Duration kMemory = absl::Minutes(1);
constexpr absl::Duration kRetryAfterMin = absl::Seconds(1);
constexpr absl::Duration kRetryAfterMax = absl::Minutes(1);
constexpr absl::Duration kRetryAfterUnmeasured = absl::Seconds(5);

}  // namespace

void DrainRate::Count(absl::Duration now) {
  rate_ = PerSecond(now) + 1 / absl::ToDoubleSeconds(kMemory);
  counted_at_ = now;
}

double DrainRate::PerSecond(absl::Duration now) const {
  if (rate_ == 0) return 0;
  return rate_ * std::exp(-absl::FDivDuration(now - counted_at_, kMemory));
}

absl::Duration DrainRate::RetryAfter(absl::Duration now) const {
  const double rate = PerSecond(now);
  if (rate == 0) return kRetryAfterUnmeasured;
  return std::clamp(absl::Seconds(1 / rate), kRetryAfterMin, kRetryAfterMax);
}

}  // namespace callboard::core
