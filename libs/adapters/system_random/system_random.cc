#include "libs/adapters/system_random/system_random.h"

#include <sys/random.h>

#include "libs/base/check.h"

namespace callboard::adapters {

uint64_t SystemRandom::Next() {
  base::MutexLock lock(mutex_);
  if (left_ == 0) {
    // Reads of up to 256 bytes are never cut short.
    CHECK_EQ(getrandom(numbers_.data(), sizeof(numbers_), 0), ssize_t{sizeof(numbers_)});
    left_ = numbers_.size();
  }
  return numbers_[--left_];
}

}  // namespace callboard::adapters
