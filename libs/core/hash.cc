#include "libs/core/hash.h"

#include <cstdint>
#include <cstring>

namespace callboard::core {
namespace {

struct FrameHeader {
  uint32_t bytes = 0;
  uint32_t unused = 0;
  uint64_t hash = 0;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

}  // namespace

void AppendFrame(absl::string_view payload, std::string& text) {
  const FrameHeader header = {.bytes = static_cast<uint32_t>(payload.size()),
                              .hash = StableHash().Add(payload).value()};
  text.append(reinterpret_cast<const char*>(&header), sizeof(header));
  text.append(payload.data(), payload.size());
}

std::optional<absl::string_view> ConsumeFrame(absl::string_view& text) {
  FrameHeader header;
  if (text.size() < sizeof(header)) return std::nullopt;
  std::memcpy(&header, text.data(), sizeof(header));
  const absl::string_view payload = text.substr(sizeof(header), header.bytes);
  if (payload.size() < header.bytes || StableHash().Add(payload).value() != header.hash) {
    return std::nullopt;
  }
  text.remove_prefix(sizeof(header) + payload.size());
  return payload;
}

}  // namespace callboard::core
