#ifndef CALLBOARD_LIBS_BASE_NEAREST_H_
#define CALLBOARD_LIBS_BASE_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace callboard::base {

// The one of `candidates` that `name` most likely misspells, the first of equals; empty when none
// is near enough to be more than a guess.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_NEAREST_H_
