// Text from outside: cut, repaired, quoted in errors and escaped for terminals and logs.
//
// A string field of Protobuf that is not UTF-8 makes the whole message unreadable. So text from
// agents, tasks and disks passes through ValidUtf8() or KeptText() before it is kept, and is cut
// only by the functions below.
#ifndef CALLBOARD_LIBS_BASE_TEXT_H_
#define CALLBOARD_LIBS_BASE_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::base {

// The longest value, in bytes, that an error message quotes.
inline constexpr size_t kEchoedBytesMax = 128;

// The first character of a text. A byte that belongs to none stands alone, without a code point.
struct Character {
  std::optional<char32_t> point;
  size_t bytes = 0;
};
// REQUIRES: !text.empty().
Character FirstCharacter(absl::string_view text);

// C0, DEL and C1.
bool IsControl(char32_t point);
// What a terminal or a log must not get as it is: controls, line separators and the characters
// that turn the direction of writing.
bool IsUnsafe(char32_t point);

// Whether `text` is UTF-8: no overlong form, no surrogate, nothing above U+10FFFF.
bool IsUtf8(absl::string_view text);

// `text` with U+FFFD in place of every byte that is not part of a UTF-8 character.
std::string ValidUtf8(std::string text);

// The beginning and the end of a UTF-8 text: at most `bytes`, and no part of a character. Of other
// bytes the end may be three shorter than that.
absl::string_view Utf8Cut(absl::string_view text, size_t bytes);
absl::string_view Utf8Tail(absl::string_view text, size_t bytes);

// How many bytes at the end of `text` are the beginning of a character whose rest may follow.
size_t Utf8Unfinished(absl::string_view text);

// ValidUtf8(text), cut to `bytes`.
std::string KeptText(std::string text, size_t bytes);

// Whether `text` has a control character, or bytes that are not UTF-8.
bool HasControl(absl::string_view text);

// Whether Escaped() changes `text`.
bool NeedsEscape(absl::string_view text);

// `text` with \u001b (or \n, \r, \t) in place of every unsafe character, and \xff in place of every
// byte that is not UTF-8.
std::string Escaped(absl::string_view text);
// As Escaped(), for text of many lines: line ends and tabs stay.
std::string EscapedLines(absl::string_view text);

// `value` as an error message shows it: at most kEchoedBytesMax, escaped; "…" stands for the rest.
std::string Echoed(absl::string_view value);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_TEXT_H_
