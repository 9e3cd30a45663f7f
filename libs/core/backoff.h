#ifndef CALLBOARD_LIBS_CORE_BACKOFF_H_
#define CALLBOARD_LIBS_CORE_BACKOFF_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "libs/core/ids.h"

namespace callboard::core {

// `first` · `factor`^`times`, at most `most`.
absl::Duration Grown(absl::Duration first, int factor, uint32_t times, absl::Duration most);

// Half of `full` or more, by the hash of who waits: those who began together do not end together.
absl::Duration Spread(absl::Duration full, uint64_t hash);

// How long a task waits after its attempt number `attempts` (from 1) before it is tried again:
// 5 s · 4^(attempts - 1), at most 5 min, half of it fixed and half from a hash of task and attempt,
// so that tasks which failed together do not return together. `asked`, an agent's RetryInfo, wins,
// up to 15 min.
absl::Duration BackoffAfter(QueueId task, uint32_t attempts, std::optional<absl::Duration> asked);

// How long an agent that could not be reached `times` in a row (from 1) is left alone: 5 s ·
// 2^(times - 1), at most 2 min.
absl::Duration SuspicionAfter(uint32_t times);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_BACKOFF_H_
