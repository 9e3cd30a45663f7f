#ifndef CALLBOARD_LIBS_ADAPTERS_SYSTEM_RANDOM_SYSTEM_RANDOM_H_
#define CALLBOARD_LIBS_ADAPTERS_SYSTEM_RANDOM_SYSTEM_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "libs/base/mutex.h"
#include "libs/ports/random.h"

namespace callboard::adapters {

// Chance from the operating system, which nobody can predict: tickets are made of it.
//
// Thread-safe.
class SystemRandom final : public ports::Random {
 public:
  uint64_t Next() override;

 private:
  base::Mutex mutex_;
  // Fetched together, because each fetch is a system call; the first `left_` are unused.
  std::array<uint64_t, 32> numbers_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SYSTEM_RANDOM_SYSTEM_RANDOM_H_
