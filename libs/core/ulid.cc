#include "libs/core/ulid.h"

#include <algorithm>

namespace callboard::core {
namespace {

constexpr absl::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr size_t kCharacters = 26;
constexpr int kBitsPerCharacter = 5;
// 26 characters hold 130 bits: the first one has two to spare.
constexpr uint8_t kFirstCharacterMax = 7;
constexpr uint8_t kNoDigit = 32;

// What each character stands for.
constexpr std::array<uint8_t, 256> kDigits = [] {
  std::array<uint8_t, 256> digits = {};
  for (uint8_t& digit : digits) digit = kNoDigit;
  for (uint8_t i = 0; i < kAlphabet.size(); ++i) digits[static_cast<uint8_t>(kAlphabet[i])] = i;
  return digits;
}();

uint8_t DigitOf(char c) { return kDigits[static_cast<uint8_t>(c)]; }

}  // namespace

Ulid Ulid::At(absl::Time now, std::array<uint64_t, 2> chance) {
  const int64_t milliseconds = std::max<int64_t>(0, absl::ToUnixMillis(now));
  return Ulid(static_cast<uint64_t>(milliseconds) << 16 | (chance[0] & 0xffff), chance[1]);
}

Ulid Ulid::After(Ulid last, absl::Time now, std::array<uint64_t, 2> chance) {
  const Ulid at = At(now, chance);
  if (at.high_ >> 16 > last.high_ >> 16) return at;
  const uint64_t step = 1 + (chance[0] & 0xffffffff);
  const bool carries = last.low_ + step < last.low_;
  return Ulid(last.high_ + (carries ? 1 : 0), last.low_ + step);
}

std::optional<Ulid> Ulid::Parse(absl::string_view text) {
  if (text.size() != kCharacters || DigitOf(text[0]) > kFirstCharacterMax) return std::nullopt;
  Ulid ulid;
  for (const char c : text) {
    const uint8_t digit = DigitOf(c);
    if (digit == kNoDigit) return std::nullopt;
    ulid.high_ = ulid.high_ << kBitsPerCharacter | ulid.low_ >> (64 - kBitsPerCharacter);
    ulid.low_ = ulid.low_ << kBitsPerCharacter | digit;
  }
  return ulid;
}

std::string Ulid::ToString() const {
  std::string text(kCharacters, '0');
  uint64_t high = high_;
  uint64_t low = low_;
  for (size_t i = kCharacters; i-- > 0;) {
    text[i] = kAlphabet[low & 31];
    low = low >> kBitsPerCharacter | high << (64 - kBitsPerCharacter);
    high >>= kBitsPerCharacter;
  }
  return text;
}

}  // namespace callboard::core
