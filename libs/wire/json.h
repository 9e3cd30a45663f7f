// The JSON form of messages, for HTTP and the command line: writer and reader.

#ifndef CALLBOARD_LIBS_WIRE_JSON_H_
#define CALLBOARD_LIBS_WIRE_JSON_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::wire {

// Returns `message` as a JSON object on one line. Names are in snake_case, enums are written as
// EnumText() does, integers as numbers, times in RFC 3339, durations as `1.5s` and bytes in base64.
// The object contains every field, even if it has its default value, except for the unset members
// of a oneof. Absent messages, absent optional fields and unspecified enums are null.
std::string ToJson(const google::protobuf::Message& message);

// Parses the form that ToJson() writes, and replaces the contents of `message`. A member that is
// null or missing leaves its field absent or at its default. Times may have any UTC offset.
//
// Returns INVALID_ARGUMENT and leaves `message` unchanged if `text` is not JSON in UTF-8, is nested
// too deeply, or has an unknown member, a duplicate member, two members of a oneof, or a value of
// the wrong type or out of range. The error contains the path, such as `items[3].timeout_seconds`,
// as a field violation (libs/base/error.h) too, and the expected and the found type. It never
// contains the value, because prompts and environments must not be logged, except for a number or
// an enum text where one is expected. For an unknown member it suggests the nearest name.
//
// Two values that ToJson() writes as null do not round-trip: an infinite number becomes its default
// value, and an unspecified enum in a list is an error.
absl::Status FromJson(absl::string_view text, google::protobuf::Message& message);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_JSON_H_
