#include "libs/adapters/system_random/system_random.h"

#include <sys/random.h>

#include "libs/base/check.h"

namespace callboard::adapters {

uint64_t SystemRandom::Next() {
  uint64_t number = 0;
  // Reads of up to 256 bytes are never cut short.
  CHECK_EQ(getrandom(&number, sizeof(number), 0), ssize_t{sizeof(number)});
  return number;
}

}  // namespace callboard::adapters
