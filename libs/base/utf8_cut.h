#ifndef CALLBOARD_LIBS_BASE_UTF8_CUT_H_
#define CALLBOARD_LIBS_BASE_UTF8_CUT_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace callboard::base {

// The beginning of a UTF-8 text: at most `bytes`, and no part of a character.
inline absl::string_view Utf8Cut(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_UTF8_CUT_H_
