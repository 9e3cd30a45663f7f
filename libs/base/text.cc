#include "libs/base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace callboard::base {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// Of one character.
constexpr size_t kContinuationsMax = 3;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// How a UTF-8 character of `bytes` begins, and the smallest code point that needs so many.
struct Form {
  size_t bytes;
  unsigned char mask;
  unsigned char lead;
  char32_t smallest;
};
constexpr Form kForms[] = {
    {1, 0x80, 0x00, 0}, {2, 0xe0, 0xc0, 0x80}, {3, 0xf0, 0xe0, 0x800}, {4, 0xf8, 0xf0, 0x10000}};

template <class IsBad>
bool AnyCharacter(absl::string_view text, IsBad is_bad) {
  while (!text.empty()) {
    const Character first = FirstCharacter(text);
    if (is_bad(first)) return true;
    text.remove_prefix(first.bytes);
  }
  return false;
}

void AppendEscape(char32_t point, std::string& text) {
  switch (point) {
    case '\n':
      absl::StrAppend(&text, "\\n");
      return;
    case '\r':
      absl::StrAppend(&text, "\\r");
      return;
    case '\t':
      absl::StrAppend(&text, "\\t");
      return;
    default:
      absl::StrAppendFormat(&text, "\\u%04x", static_cast<unsigned>(point));
  }
}

std::string EscapedExcept(absl::string_view text, absl::string_view kept) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const Character first = FirstCharacter(text);
    const absl::string_view bytes = text.substr(0, first.bytes);
    if (!first.point.has_value()) {
      absl::StrAppendFormat(&escaped, "\\x%02x", static_cast<unsigned char>(bytes[0]));
    } else if (IsUnsafe(*first.point) && !absl::StrContains(kept, bytes)) {
      AppendEscape(*first.point, escaped);
    } else {
      absl::StrAppend(&escaped, bytes);
    }
    text.remove_prefix(first.bytes);
  }
  return escaped;
}

}  // namespace

Character FirstCharacter(absl::string_view text) {
  const Character lone = {.point = std::nullopt, .bytes = 1};
  const auto lead = static_cast<unsigned char>(text[0]);
  for (const Form& form : kForms) {
    if ((lead & form.mask) != form.lead) continue;
    if (text.size() < form.bytes) return lone;
    char32_t point = lead & static_cast<unsigned char>(~form.mask);
    for (const char next : text.substr(1, form.bytes - 1)) {
      if (!IsContinuation(next)) return lone;
      point = (point << 6) | (static_cast<unsigned char>(next) & 0x3f);
    }
    const bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
    if (point < form.smallest || point > 0x10ffff || is_surrogate) return lone;
    return {.point = point, .bytes = form.bytes};
  }
  return lone;
}

bool IsControl(char32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

bool IsUnsafe(char32_t point) {
  return IsControl(point) || point == 0x061c || point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

bool IsUtf8(absl::string_view text) {
  // Most text is ASCII, and then this is all.
  for (uint64_t word = 0; text.size() >= sizeof(word); text.remove_prefix(sizeof(word))) {
    std::memcpy(&word, text.data(), sizeof(word));
    if ((word & 0x8080808080808080) != 0) break;
  }
  return !AnyCharacter(text, [](const Character& it) { return !it.point.has_value(); });
}

std::string ValidUtf8(std::string text) {
  if (IsUtf8(text)) return text;
  std::string valid;
  for (absl::string_view rest = text; !rest.empty();) {
    const Character first = FirstCharacter(rest);
    absl::StrAppend(&valid, first.point.has_value() ? rest.substr(0, first.bytes) : kReplacement);
    rest.remove_prefix(first.bytes);
  }
  return valid;
}

absl::string_view Utf8Cut(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && IsContinuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

absl::string_view Utf8Tail(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  text.remove_prefix(text.size() - bytes);
  size_t rest = 0;
  while (rest < kContinuationsMax && rest < text.size() && IsContinuation(text[rest])) ++rest;
  return text.substr(rest);
}

size_t Utf8Unfinished(absl::string_view text) {
  for (size_t bytes = 1; bytes <= text.size() && bytes < 4; ++bytes) {
    const char lead = text[text.size() - bytes];
    if (IsContinuation(lead)) continue;
    const auto starts = [lead](const Form& form) {
      return (static_cast<unsigned char>(lead) & form.mask) == form.lead;
    };
    const auto* const form = std::find_if(std::begin(kForms), std::end(kForms), starts);
    return form != std::end(kForms) && bytes < form->bytes ? bytes : 0;
  }
  return 0;
}

std::string KeptText(std::string text, size_t bytes) {
  std::string valid = ValidUtf8(std::move(text));
  valid.resize(Utf8Cut(valid, bytes).size());
  return valid;
}

bool HasControl(absl::string_view text) {
  return AnyCharacter(text, [](const Character& it) { return !it.point || IsControl(*it.point); });
}

bool NeedsEscape(absl::string_view text) {
  return AnyCharacter(text, [](const Character& it) { return !it.point || IsUnsafe(*it.point); });
}

std::string Escaped(absl::string_view text) { return EscapedExcept(text, ""); }

std::string EscapedLines(absl::string_view text) { return EscapedExcept(text, "\n\t"); }

std::string Echoed(absl::string_view value) {
  const absl::string_view shown = Utf8Cut(value, kEchoedBytesMax);
  const std::string escaped = Escaped(shown);
  const bool is_whole = shown.size() == value.size() && escaped.size() <= kEchoedBytesMax;
  return is_whole ? escaped : absl::StrCat(Utf8Cut(escaped, kEchoedBytesMax), "…");
}

}  // namespace callboard::base
