// The clocks, random numbers and resources of this machine.

#ifndef CALLBOARD_LIBS_SYSTEM_SYSTEM_H_
#define CALLBOARD_LIBS_SYSTEM_SYSTEM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "libs/base/mutex.h"
#include "libs/flow/limits.h"
#include "libs/ports/environment.h"

namespace callboard::system {

// The clocks of the operating system. Thread-safe.
class SystemClock final : public ports::Clock {
 public:
  absl::Time WallNow() const override;
  // Counts from the start of the machine and includes suspended time: a lease ends even while the
  // machine sleeps.
  absl::Duration MonotonicNow() const override;
};

// Unpredictable random numbers from the operating system. Suitable for tickets, which must not be
// guessed.
//
// Thread-safe.
class SystemRandom final : public ports::Random {
 public:
  uint64_t Next() override;

 private:
  base::Mutex mutex_;
  // Fetched in bulk, because each fetch is a system call. The first `left_` are unused.
  std::array<uint64_t, 32> numbers_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns the resources that this process may use: those of the machine, limited by its container.
flow::Machine ThisMachine();

// Returns `machine` reduced to the limits of the control groups (version 2 or 1) mounted at
// `folder`.
flow::Machine ApplyGroupLimits(flow::Machine machine, const std::filesystem::path& folder);

}  // namespace callboard::system

#endif  // CALLBOARD_LIBS_SYSTEM_SYSTEM_H_
