#ifndef CALLBOARD_LIBS_BASE_JSON_QUOTED_H_
#define CALLBOARD_LIBS_BASE_JSON_QUOTED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace callboard::base {

// `text` as a JSON string, quotes included. Control characters are escaped; bytes that are not
// UTF-8 pass through as they are.
std::string JsonQuoted(absl::string_view text);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_JSON_QUOTED_H_
