// Pieces of text one behind the other in a file that grows at its end: each has its length and a
// hash before it, so that what a crash tore off is found out.
#ifndef CALLBOARD_LIBS_CORE_FRAMED_H_
#define CALLBOARD_LIBS_CORE_FRAMED_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::core {

// What a piece takes beside its own bytes.
inline constexpr size_t kFrameBytes = 16;

// Puts `piece` behind what is in `text`. REQUIRES: it is below 4 GiB.
void AppendFramed(absl::string_view piece, std::string& text);

// Takes the first piece off `text`. Nothing, and all is left, when it is not whole.
std::optional<absl::string_view> TakeFramed(absl::string_view& text);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_FRAMED_H_
