#ifndef CALLBOARD_LIBS_BASE_JSON_QUOTED_H_
#define CALLBOARD_LIBS_BASE_JSON_QUOTED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace callboard::base {

// `text` as a JSON string, quotes included. What is unsafe on a terminal (libs/base/text.h) is
// escaped; bytes that are not UTF-8 become U+FFFD.
std::string JsonQuoted(absl::string_view text);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_JSON_QUOTED_H_
