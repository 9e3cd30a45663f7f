#ifndef CALLBOARD_LIBS_PORTS_RANDOM_H_
#define CALLBOARD_LIBS_PORTS_RANDOM_H_

#include <cstdint>

namespace callboard::ports {

// Chance, for names that nobody else may have. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;

  // Any number, each as likely as the others.
  virtual uint64_t Next() = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_RANDOM_H_
