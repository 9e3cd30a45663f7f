// An enum of libs/core and one of a proto, side by side in a table of pairs.
#ifndef CALLBOARD_LIBS_WIRE_ENUM_PAIR_H_
#define CALLBOARD_LIBS_WIRE_ENUM_PAIR_H_

#include <cstddef>
#include <optional>
#include <utility>

#include "libs/base/check.h"

namespace callboard::wire {

template <class Core, class Proto>
using EnumPair = std::pair<Core, Proto>;

// The other side of `value`, by its table.
template <class Core, class Proto, size_t N>
Proto ToProto(const EnumPair<Core, Proto> (&table)[N], Core value) {
  for (const auto& [core, proto] : table) {
    if (core == value) return proto;
  }
  CHECK(false) << "a value that its table lacks";
  return {};
}

// Null for the unspecified value, and for one that this version does not know.
template <class Core, class Proto, size_t N>
std::optional<Core> FromProto(const EnumPair<Core, Proto> (&table)[N], Proto value) {
  for (const auto& [core, proto] : table) {
    if (proto == value) return core;
  }
  return std::nullopt;
}

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_ENUM_PAIR_H_
