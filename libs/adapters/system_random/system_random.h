#ifndef CALLBOARD_LIBS_ADAPTERS_SYSTEM_RANDOM_SYSTEM_RANDOM_H_
#define CALLBOARD_LIBS_ADAPTERS_SYSTEM_RANDOM_SYSTEM_RANDOM_H_

#include "libs/ports/random.h"

namespace callboard::adapters {

// Chance from the operating system, which nobody can predict: tickets are made of it.
class SystemRandom final : public ports::Random {
 public:
  uint64_t Next() override;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SYSTEM_RANDOM_SYSTEM_RANDOM_H_
