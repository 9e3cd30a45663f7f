// For properties that hold whatever bytes agents, tasks and old records hold.
#ifndef CALLBOARD_LIBS_TESTING_ANY_BYTES_H_
#define CALLBOARD_LIBS_TESTING_ANY_BYTES_H_

#include <rapidcheck.h>

#include <cstddef>
#include <string>

#include "libs/core/limits.h"

namespace callboard::test {

// Bytes of whole and broken characters, often about as long as an error may be.
//
// REQUIRES: called inside a RapidCheck property.
inline std::string DrawBytes() {
  const std::string piece = *rc::gen::element<std::string>(
      "a", "ä", "€", "\xf0\x9f\x99\x82", "\xff", "\xc3", "\xe2\x82", "\x80", "\x1b");
  const size_t bytes = *rc::gen::element<size_t>(0, 1, core::kNameBytesMax, core::kErrorBytesMax,
                                                 core::kErrorBytesMax + 1, core::kResultBytesMax);
  std::string text = *rc::gen::element<std::string>("", "x", "xy", "xyz");
  while (text.size() < bytes) text += piece;
  return text;
}

// Whether a client can parse `message`.
template <class Message>
bool Parses(const Message& message) {
  Message parsed;
  return parsed.ParseFromString(message.SerializeAsString());
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_ANY_BYTES_H_
