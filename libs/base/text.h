// Functions for untrusted text: truncation, repair of UTF-8, escaping for errors, terminals, logs
// and JSON, and suggestions for misspelled names.
//
// A Protobuf string field that is not UTF-8 makes the whole message unreadable. Text from agents,
// tasks and disks must therefore pass through ValidUtf8() or SanitizeText() before it is stored,
// and must be truncated only by the functions below.

#ifndef CALLBOARD_LIBS_BASE_TEXT_H_
#define CALLBOARD_LIBS_BASE_TEXT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace callboard::base {

// Maximum number of bytes of a value in an error message.
inline constexpr size_t kErrorValueBytesMax = 128;

// The first character of a text. A byte that is not part of a valid character has no code point.
struct Character {
  std::optional<char32_t> point;
  size_t bytes = 0;
};
// REQUIRES: !text.empty().
Character FirstCharacter(absl::string_view text);

// Returns true for C0, DEL and C1.
bool IsControl(char32_t point);
// Returns true for characters that must be escaped for terminals and logs: control characters, line
// separators and characters that change the writing direction.
bool IsUnsafe(char32_t point);

// Returns true if `text` is valid UTF-8, without overlong forms, surrogates and code points above
// U+10FFFF.
bool IsUtf8(absl::string_view text);

// Returns `text` with U+FFFD in place of every byte that is not part of a UTF-8 character.
std::string ValidUtf8(std::string text);

// Return the longest prefix and suffix of a UTF-8 text that has at most `bytes` and does not split
// a character. If `text` is not UTF-8, the suffix may be up to three bytes shorter than necessary.
absl::string_view Utf8Prefix(absl::string_view text, size_t bytes);
absl::string_view Utf8Suffix(absl::string_view text, size_t bytes);

// Returns the number of bytes at the end of `text` that are an incomplete character.
size_t Utf8IncompleteSuffix(absl::string_view text);

// Returns Utf8Prefix(ValidUtf8(text), bytes).
std::string SanitizeText(std::string text, size_t bytes);

// Returns true if `text` has a control character or bytes that are not UTF-8.
bool HasControl(absl::string_view text);

// Returns true if Escaped() would change `text`.
bool NeedsEscape(absl::string_view text);

// Returns `text` with an escape such as \u001b, \n, \r or \t in place of every unsafe character,
// and one such as \xff in place of every byte that is not UTF-8.
std::string Escaped(absl::string_view text);
// Like Escaped(), but keeps line ends and tabs, for text of several lines.
std::string EscapedLines(absl::string_view text);

// Escapes `value` for an error message. Truncates the result to kErrorValueBytesMax and then
// appends "…".
std::string EscapeForError(absl::string_view value);

// Returns the candidate of which `name` is most likely a misspelling, and the first one if several
// are equally near. Returns an empty text if no candidate is near enough.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

// Returns `text` as a JSON string, including the quotes. Escapes characters that are unsafe on a
// terminal. Replaces bytes that are not UTF-8 with U+FFFD.
std::string JsonQuoted(absl::string_view text);

// Returns true if `address` is a host and a port, such as 10.0.0.7:7071. The host is a name, an
// IPv4 address or an IPv6 address in brackets. Returns false for addresses that gRPC would read as
// another scheme, such as unix:/tmp/socket.
bool IsHostPort(absl::string_view address);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_TEXT_H_
