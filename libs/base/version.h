#ifndef CALLBOARD_LIBS_BASE_VERSION_H_
#define CALLBOARD_LIBS_BASE_VERSION_H_

#include "absl/strings/string_view.h"

namespace callboard::base {

// The version of everything built from this tree.
inline constexpr absl::string_view kVersion = "0.1.0";

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_VERSION_H_
