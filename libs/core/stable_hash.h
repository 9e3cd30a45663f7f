#ifndef CALLBOARD_LIBS_CORE_STABLE_HASH_H_
#define CALLBOARD_LIBS_CORE_STABLE_HASH_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace callboard::core {

// Hashes what is added to it, to the same two numbers in every process and for good: what is stored
// may depend on them. Not made to withstand an attacker.
class StableHash {
 public:
  StableHash& Add(uint64_t number) {
    first_ ^= number * 0x9e3779b97f4a7c15;
    first_ = (first_ << 29 | first_ >> 35) * 0xbf58476d1ce4e5b9;
    second_ ^= number * 0xd6e8feb86659fd93;
    second_ = (second_ << 31 | second_ >> 33) * 0x94d049bb133111eb;
    return *this;
  }
  // With its length, so that "ab" and "c" are not "a" and "bc".
  StableHash& Add(absl::string_view text) {
    Add(text.size());
    for (; text.size() >= sizeof(uint64_t); text.remove_prefix(sizeof(uint64_t))) Add(Word(text));
    return text.empty() ? *this : Add(Word(text));
  }

  uint64_t value() const { return Mixed(first_); }
  // Says nothing about the other one.
  uint64_t second_value() const { return Mixed(second_); }

 private:
  // Up to 8 bytes, the first one lowest.
  static uint64_t Word(absl::string_view text) {
    static_assert(std::endian::native == std::endian::little, "turn the word round");
    uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min(text.size(), sizeof(word)));
    return word;
  }
  // Spreads what was added last over all bits.
  static uint64_t Mixed(uint64_t state) {
    state = (state ^ state >> 33) * 0xff51afd7ed558ccd;
    state = (state ^ state >> 33) * 0xc4ceb9fe1a85ec53;
    return state ^ state >> 33;
  }

  uint64_t first_ = 0xcbf29ce484222325;
  uint64_t second_ = 0x84222325cbf29ce4;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_STABLE_HASH_H_
