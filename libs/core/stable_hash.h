#ifndef CALLBOARD_LIBS_CORE_STABLE_HASH_H_
#define CALLBOARD_LIBS_CORE_STABLE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace callboard::core {

// Hashes what is added to it, to the same number in every process and for good: what is stored may
// depend on it. Not made to withstand an attacker.
class StableHash {
 public:
  // Two hashes with different seeds have nothing to do with each other.
  explicit StableHash(uint64_t seed = 0) : state_(seed ^ 0xcbf29ce484222325) {}

  StableHash& Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) AddByte(static_cast<uint8_t>(number >> shift));
    return *this;
  }
  // With its length, so that "ab" and "c" are not "a" and "bc".
  StableHash& Add(absl::string_view text) {
    Add(text.size());
    for (const char c : text) AddByte(static_cast<uint8_t>(c));
    return *this;
  }

  uint64_t value() const {
    // Spreads the last bytes over all bits.
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 33) * 0xff51afd7ed558ccd;
    mixed = (mixed ^ mixed >> 33) * 0xc4ceb9fe1a85ec53;
    return mixed ^ mixed >> 33;
  }

 private:
  void AddByte(uint8_t byte) { state_ = (state_ ^ byte) * 0x100000001b3; }

  uint64_t state_;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_STABLE_HASH_H_
