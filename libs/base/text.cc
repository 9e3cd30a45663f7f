#include "libs/base/text.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace callboard::base {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// Maximum number of continuation bytes of a character.
constexpr size_t kContinuationsMax = 3;

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// The lead byte of UTF-8 characters with `bytes` bytes, and the smallest code point that needs that
// many.
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

// Returns the number of single-character edits from `a` to `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

bool IsHost(absl::string_view host) {
  const bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_v6) host = host.substr(1, host.size() - 2);
  return !host.empty() && std::all_of(host.begin(), host.end(), [is_v6](char c) {
    if (is_v6) return absl::ascii_isxdigit(c) || c == ':' || c == '.' || c == '%';
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
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
  // Fast path: most text is ASCII.
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

absl::string_view Utf8Prefix(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && IsContinuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

absl::string_view Utf8Suffix(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  text.remove_prefix(text.size() - bytes);
  size_t rest = 0;
  while (rest < kContinuationsMax && rest < text.size() && IsContinuation(text[rest])) ++rest;
  return text.substr(rest);
}

size_t Utf8IncompleteSuffix(absl::string_view text) {
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

std::string SanitizeText(std::string text, size_t bytes) {
  std::string valid = ValidUtf8(std::move(text));
  valid.resize(Utf8Prefix(valid, bytes).size());
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

std::string EscapeForError(absl::string_view value) {
  const absl::string_view shown = Utf8Prefix(value, kErrorValueBytesMax);
  const std::string escaped = Escaped(shown);
  const bool is_whole = shown.size() == value.size() && escaped.size() <= kErrorValueBytesMax;
  return is_whole ? escaped : absl::StrCat(Utf8Prefix(escaped, kErrorValueBytesMax), "…");
}

std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates) {
  // A suggestion further away than this would be a guess.
  size_t nearest_distance = name.size() / 3 + 2;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    // The distance is at least the difference in length. Checking that first bounds the work for
    // very long names from untrusted callers.
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if (longer - shorter >= nearest_distance) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const Character first = FirstCharacter(text);
    const char32_t point = first.point.value_or(0xfffd);
    if (point == '"' || point == '\\') {
      absl::StrAppend(&quoted, "\\", text.substr(0, 1));
    } else if (point == '\n') {
      quoted += "\\n";
    } else if (IsUnsafe(point) || !first.point.has_value()) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(point));
    } else {
      absl::StrAppend(&quoted, text.substr(0, first.bytes));
    }
    text.remove_prefix(first.bytes);
  }
  quoted += '"';
  return quoted;
}

bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && IsHost(address.substr(0, colon)) &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port <= 65535;
}

}  // namespace callboard::base
