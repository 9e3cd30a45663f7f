#ifndef CALLBOARD_LIBS_PORTS_RANDOM_H_
#define CALLBOARD_LIBS_PORTS_RANDOM_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace callboard::ports {

// Chance, for names that nobody else may have. Thread-safe.
class Random {
 public:
  virtual ~Random() = default;

  // Any number, each as likely as the others.
  virtual uint64_t Next() = 0;
};

// A name that nobody else has: 16 digits, in lower case.
inline std::string NewName(Random& random) {
  return absl::StrCat(absl::Hex(random.Next(), absl::kZeroPad16));
}

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_RANDOM_H_
