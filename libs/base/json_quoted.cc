#include "libs/base/json_quoted.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/text.h"

namespace callboard::base {

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

}  // namespace callboard::base
