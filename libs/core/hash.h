// A hash for stored data, and the framing of append-only files that is built on it.

#ifndef CALLBOARD_LIBS_CORE_HASH_H_
#define CALLBOARD_LIBS_CORE_HASH_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::core {

// A hash function whose values never change, in any process or version, so that stored data may
// depend on them. Not cryptographic.
class StableHash {
 public:
  StableHash& Add(uint64_t number) {
    first_ ^= number * 0x9e3779b97f4a7c15;
    first_ = (first_ << 29 | first_ >> 35) * 0xbf58476d1ce4e5b9;
    second_ ^= number * 0xd6e8feb86659fd93;
    second_ = (second_ << 31 | second_ >> 33) * 0x94d049bb133111eb;
    return *this;
  }
  // Hashes the length too, so that ("ab", "c") and ("a", "bc") differ.
  StableHash& Add(absl::string_view text) {
    Add(text.size());
    for (; text.size() >= sizeof(uint64_t); text.remove_prefix(sizeof(uint64_t))) Add(Word(text));
    return text.empty() ? *this : Add(Word(text));
  }

  uint64_t value() const { return Mixed(first_); }
  // A second hash, independent of value().
  uint64_t second_value() const { return Mixed(second_); }

 private:
  // Returns up to 8 bytes as a little-endian number.
  static uint64_t Word(absl::string_view text) {
    static_assert(std::endian::native == std::endian::little,
                  "big-endian machines need a byte swap here");
    uint64_t word = 0;
    std::memcpy(&word, text.data(), std::min(text.size(), sizeof(word)));
    return word;
  }
  // Spreads the last input over all bits.
  static uint64_t Mixed(uint64_t state) {
    state = (state ^ state >> 33) * 0xff51afd7ed558ccd;
    state = (state ^ state >> 33) * 0xc4ceb9fe1a85ec53;
    return state ^ state >> 33;
  }

  uint64_t first_ = 0xcbf29ce484222325;
  uint64_t second_ = 0x84222325cbf29ce4;
};

// ---- Frames of append-only files ----
//
// A frame is a header, with the length and a hash of the payload, and the payload. A reader detects
// a frame that a crash has torn.

// Size of a frame header.
inline constexpr size_t kFrameHeaderBytes = 16;

// Appends a frame with `payload` to `text`. REQUIRES: payload.size() < 4 GiB.
void AppendFrame(absl::string_view payload, std::string& text);

// Removes the first frame from `text` and returns its payload. Returns null and leaves `text`
// unchanged if the frame is incomplete or damaged.
std::optional<absl::string_view> ConsumeFrame(absl::string_view& text);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_HASH_H_
