#include "libs/core/framed.h"

#include <cstdint>
#include <cstring>

#include "libs/core/stable_hash.h"

namespace callboard::core {
namespace {

struct Frame {
  uint32_t bytes = 0;
  uint32_t unused = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(Frame) == kFrameBytes);

}  // namespace

void AppendFramed(absl::string_view piece, std::string& text) {
  const Frame frame = {.bytes = static_cast<uint32_t>(piece.size()),
                       .hash = StableHash().Add(piece).value()};
  text.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
  text.append(piece.data(), piece.size());
}

std::optional<absl::string_view> TakeFramed(absl::string_view& text) {
  Frame frame;
  if (text.size() < sizeof(frame)) return std::nullopt;
  std::memcpy(&frame, text.data(), sizeof(frame));
  const absl::string_view piece = text.substr(sizeof(frame), frame.bytes);
  if (piece.size() < frame.bytes || StableHash().Add(piece).value() != frame.hash) {
    return std::nullopt;
  }
  text.remove_prefix(sizeof(frame) + piece.size());
  return piece;
}

}  // namespace callboard::core
