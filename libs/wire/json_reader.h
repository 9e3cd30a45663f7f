#ifndef CALLBOARD_LIBS_WIRE_JSON_READER_H_
#define CALLBOARD_LIBS_WIRE_JSON_READER_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::wire {

// The inverse of ToJson() (libs/wire/json.h): replaces `message` with what `text` says, in the form
// described there. A member that is null or not there leaves its field absent or at its default.
// Times may have any offset.
//
// INVALID_ARGUMENT, with `message` as it was, for a text that is no JSON in UTF-8, nested deeper
// than any message of ours, with an unknown member (naming the nearest), a member given twice, two
// of a oneof, or a value of the wrong type or out of range. The error names the place as in
// `items[3].timeout_seconds`, also as a field violation (libs/base/error.h), what is wanted and
// what was found: its type, because prompts and environments must not get into logs; a number or an
// enum's text is repeated where one was wanted.
//
// What ToJson() cannot say does not come back: an infinite number reads as its default, and an
// unspecified enum in a list is refused as the null it is written as.
absl::Status FromJson(absl::string_view text, google::protobuf::Message& message);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_JSON_READER_H_
