#include "libs/core/ids.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace callboard::core {
namespace {

constexpr absl::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr size_t kCharacters = 26;
constexpr int kBitsPerCharacter = 5;
// 26 characters hold 130 bits, so the first one uses only three of its five.
constexpr uint8_t kFirstCharacterMax = 7;
constexpr uint8_t kNoDigit = 32;

// The value of each character; kNoDigit for characters outside of the alphabet.
constexpr std::array<uint8_t, 256> kDigits = [] {
  std::array<uint8_t, 256> digits = {};
  for (uint8_t& digit : digits) digit = kNoDigit;
  for (uint8_t i = 0; i < kAlphabet.size(); ++i) digits[static_cast<uint8_t>(kAlphabet[i])] = i;
  return digits;
}();

uint8_t ToDigit(char c) { return kDigits[static_cast<uint8_t>(c)]; }

constexpr absl::string_view kQueueIdPrefix = "queue-";
constexpr absl::string_view kTaskIdPrefix = "task-";

}  // namespace

Ulid Ulid::At(absl::Time now, std::array<uint64_t, 2> random) {
  const int64_t milliseconds = std::max<int64_t>(0, absl::ToUnixMillis(now));
  return Ulid(static_cast<uint64_t>(milliseconds) << 16 | (random[0] & 0xffff), random[1]);
}

Ulid Ulid::After(Ulid last, absl::Time now, std::array<uint64_t, 2> random) {
  const Ulid at = At(now, random);
  if (at.high_ >> 16 > last.high_ >> 16) return at;
  const uint64_t step = 1 + (random[0] & 0xffffffff);
  const bool carries = last.low_ + step < last.low_;
  return Ulid(last.high_ + (carries ? 1 : 0), last.low_ + step);
}

std::optional<Ulid> Ulid::Parse(absl::string_view text) {
  if (text.size() != kCharacters || ToDigit(text[0]) > kFirstCharacterMax) return std::nullopt;
  Ulid ulid;
  for (const char c : text) {
    const uint8_t digit = ToDigit(c);
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

std::string ToString(QueueId id) { return absl::StrCat(kQueueIdPrefix, id.value().ToString()); }

std::optional<QueueId> ParseQueueId(absl::string_view text) {
  if (!absl::ConsumePrefix(&text, kQueueIdPrefix)) return std::nullopt;
  const std::optional<Ulid> ulid = Ulid::Parse(text);
  if (!ulid.has_value()) return std::nullopt;
  return QueueId(*ulid);
}

std::string TaskIdText(QueueId id, DispatchNumber dispatch) {
  return absl::StrCat(kTaskIdPrefix, id.value().ToString(), "-", dispatch.value());
}

std::optional<std::pair<QueueId, DispatchNumber>> ParseTaskId(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kTaskIdPrefix)) return std::nullopt;
  const size_t dash = rest.find('-');
  const std::optional<Ulid> ulid = Ulid::Parse(rest.substr(0, dash));
  uint64_t number = 0;
  if (!ulid.has_value() || dash == rest.npos || !absl::SimpleAtoi(rest.substr(dash + 1), &number)) {
    return std::nullopt;
  }
  const std::pair<QueueId, DispatchNumber> parsed(*ulid, number);
  if (TaskIdText(parsed.first, parsed.second) != text) return std::nullopt;
  return parsed;
}

}  // namespace callboard::core
