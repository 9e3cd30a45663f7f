#include "libs/core/backoff.h"

#include <algorithm>

#include "libs/base/check.h"
#include "libs/core/stable_hash.h"

namespace callboard::core {

absl::Duration Grown(absl::Duration first, int factor, uint32_t times, absl::Duration most) {
  absl::Duration grown = first;
  for (uint32_t i = 0; i < times && grown < most; ++i) grown *= factor;
  return std::min(grown, most);
}

absl::Duration Spread(absl::Duration full, uint64_t hash) {
  return full / 2 + full / 2 * (static_cast<double>(hash >> 11) * 0x1p-53);
}

absl::Duration BackoffAfter(QueueId task, uint32_t attempts, std::optional<absl::Duration> asked) {
  CHECK(attempts > 0);
  if (asked.has_value()) {
    return std::clamp(*asked, absl::ZeroDuration(), absl::Duration(absl::Minutes(15)));
  }
  const absl::Duration full = Grown(absl::Seconds(5), 4, attempts - 1, absl::Minutes(5));
  const uint64_t hash =
      StableHash().Add(task.value().high()).Add(task.value().low()).Add(attempts).value();
  return Spread(full, hash);
}

absl::Duration SuspicionAfter(uint32_t times) {
  CHECK(times > 0);
  return Grown(absl::Seconds(5), 2, times - 1, absl::Minutes(2));
}

}  // namespace callboard::core
