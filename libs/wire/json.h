// The one JSON form of our messages, for HTTP and the command line.
#ifndef CALLBOARD_LIBS_WIRE_JSON_H_
#define CALLBOARD_LIBS_WIRE_JSON_H_

#include <google/protobuf/message.h>

#include <string>

namespace callboard::wire {

// `message` as a JSON object on one line: names in snake_case, enums as EnumText() writes them, all
// integers as numbers, times in RFC 3339, durations as in `1.5s`, bytes in base64. Every field is
// there, also at its default, but for the members of a oneof that are not set; what is absent (a
// message, an optional field, an enum that is unspecified) is null.
std::string ToJson(const google::protobuf::Message& message);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_JSON_H_
