// Requests that do not parse, as errors that name the field.
//
// gRPC says only that a message did not parse. Protobuf logs which string field is not UTF-8, on
// the thread that parses: the handler installed here keeps that name until it is taken.
#ifndef CALLBOARD_LIBS_WIRE_PARSE_H_
#define CALLBOARD_LIBS_WIRE_PARSE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace callboard::wire {

// Sends Protobuf's own log to ours, instead of standard error, and lets ParseError() name fields.
// REQUIRES: no other thread parses yet.
void WatchParsing();

// INVALID_ARGUMENT for a `request` that did not parse on this thread just now, with the field if it
// is a string that is not UTF-8. The name is taken: a second call does not know it.
absl::Status ParseError(const google::protobuf::Descriptor& request);

// Reads `message`. ParseError() when `bytes` are not one.
absl::Status Parse(absl::string_view bytes, google::protobuf::Message& message);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_PARSE_H_
