#ifndef CALLBOARD_LIBS_CORE_STABLE_HASH_H_
#define CALLBOARD_LIBS_CORE_STABLE_HASH_H_

#include <cstddef>
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
    state_ ^= number * 0x9e3779b97f4a7c15;
    state_ = (state_ << 29 | state_ >> 35) * 0xbf58476d1ce4e5b9;
    return *this;
  }
  // With its length, so that "ab" and "c" are not "a" and "bc".
  StableHash& Add(absl::string_view text) {
    Add(text.size());
    for (; text.size() >= 8; text.remove_prefix(8)) Add(Word(text, 8));
    return text.empty() ? *this : Add(Word(text, text.size()));
  }

  uint64_t value() const {
    // Spreads what was added last over all bits.
    uint64_t mixed = state_;
    mixed = (mixed ^ mixed >> 33) * 0xff51afd7ed558ccd;
    mixed = (mixed ^ mixed >> 33) * 0xc4ceb9fe1a85ec53;
    return mixed ^ mixed >> 33;
  }

 private:
  // Up to 8 bytes, the first one lowest.
  static uint64_t Word(absl::string_view text, size_t length) {
    uint64_t word = 0;
    for (size_t i = 0; i < length; ++i) {
      word |= static_cast<uint64_t>(static_cast<uint8_t>(text[i])) << 8 * i;
    }
    return word;
  }

  uint64_t state_;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_STABLE_HASH_H_
