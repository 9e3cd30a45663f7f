// How enum values are written where people and programs other than gRPC read them.
#ifndef CALLBOARD_LIBS_WIRE_ENUM_TEXT_H_
#define CALLBOARD_LIBS_WIRE_ENUM_TEXT_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace callboard::wire {

// QUEUE_POLICY_DROP_OLDEST is written `drop-oldest`: without the prefix its enum's values share, in
// lower case, with hyphens. An enum may say otherwise (text_case): REASON_AGENT_LOST is written
// `AGENT_LOST`, OUTCOME_SKIPPED_OVERLAP `skipped_overlap`.
std::string EnumText(const google::protobuf::EnumValueDescriptor& value);

// The text of the value `number`; a newer peer's value, which we have no name for, stays a number.
std::string EnumText(const google::protobuf::EnumDescriptor& type, int number);

// The value written as `text`; null when there is none or it is the unspecified one.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view text);

// What FindEnumValue() accepts, in order of declaration.
std::vector<std::string> EnumTexts(const google::protobuf::EnumDescriptor& type);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_ENUM_TEXT_H_
