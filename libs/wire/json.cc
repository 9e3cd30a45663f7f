#include "libs/wire/json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>

#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/json_quoted.h"
#include "libs/wire/enum_text.h"

namespace callboard::wire {
namespace {

using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;

// The shortest text that reads back as `number`; JSON has no infinities.
std::string NumberText(double number) {
  if (!std::isfinite(number)) return "null";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end);
}

std::string EnumJson(const FieldDescriptor& field, int number) {
  if (number == 0) return "null";
  const auto* value = field.enum_type()->FindValueByNumber(number);
  // A newer peer's value, which we have no name for, stays a number.
  return value == nullptr ? absl::StrCat(number) : base::JsonQuoted(EnumText(*value));
}

// Messages that have a form of their own in JSON; others are objects.
std::string ValueJson(const Message& message) {
  if (const auto* time = google::protobuf::DynamicCastToGenerated<Timestamp>(&message)) {
    return base::JsonQuoted(google::protobuf::util::TimeUtil::ToString(*time));
  }
  if (const auto* duration = google::protobuf::DynamicCastToGenerated<Duration>(&message)) {
    return base::JsonQuoted(google::protobuf::util::TimeUtil::ToString(*duration));
  }
  return ToJson(message);
}

// Reads a singular field, or one element of a repeated one.
class FieldReader {
 public:
  FieldReader(const Message& message, const FieldDescriptor& field, std::optional<int> index)
      : message_(message), field_(field), index_(index) {}

  std::string Json() const {
    switch (field_.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return absl::StrCat(Get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32));
      case FieldDescriptor::CPPTYPE_INT64:
        return absl::StrCat(Get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64));
      case FieldDescriptor::CPPTYPE_UINT32:
        return absl::StrCat(Get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32));
      case FieldDescriptor::CPPTYPE_UINT64:
        return absl::StrCat(Get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return NumberText(Get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return NumberText(Get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
      case FieldDescriptor::CPPTYPE_BOOL:
        return Get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? "true" : "false";
      case FieldDescriptor::CPPTYPE_ENUM:
        return EnumJson(field_, Get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue));
      case FieldDescriptor::CPPTYPE_STRING:
        return StringJson(Get(&Reflection::GetString, &Reflection::GetRepeatedString));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return MessageJson();
    }
    return "null";  // A type of a newer protobuf.
  }

 private:
  template <class T>
  T Get(T (Reflection::*singular)(const Message&, const FieldDescriptor*) const,
        T (Reflection::*repeated)(const Message&, const FieldDescriptor*, int) const) const {
    const Reflection& reflection = *message_.GetReflection();
    return index_.has_value() ? (reflection.*repeated)(message_, &field_, *index_)
                              : (reflection.*singular)(message_, &field_);
  }

  std::string StringJson(const std::string& text) const {
    return base::JsonQuoted(field_.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text)
                                                                         : text);
  }

  std::string MessageJson() const {
    const Reflection& reflection = *message_.GetReflection();
    return ValueJson(index_.has_value() ? reflection.GetRepeatedMessage(message_, &field_, *index_)
                                        : reflection.GetMessage(message_, &field_));
  }

  const Message& message_;
  const FieldDescriptor& field_;
  const std::optional<int> index_;
};

// A map's entries as an object, by key.
std::string MapJson(const Message& message, const FieldDescriptor& field) {
  std::map<std::string, std::string> members;
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const FieldDescriptor& key = *field.message_type()->map_key();
    members[entry.GetReflection()->GetString(entry, &key)] =
        FieldReader(entry, *field.message_type()->map_value(), std::nullopt).Json();
  }
  const auto member = [](std::string* out, const auto& entry) {
    absl::StrAppend(out, base::JsonQuoted(entry.first), ":", entry.second);
  };
  return absl::StrCat("{", absl::StrJoin(members, ",", member), "}");
}

std::string FieldJson(const Message& message, const FieldDescriptor& field) {
  if (field.is_map()) return MapJson(message, field);
  if (!field.is_repeated()) {
    if (field.has_presence() && !message.GetReflection()->HasField(message, &field)) return "null";
    return FieldReader(message, field, std::nullopt).Json();
  }
  std::string elements;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    absl::StrAppend(&elements, i == 0 ? "" : ",", FieldReader(message, field, i).Json());
  }
  return absl::StrCat("[", elements, "]");
}

}  // namespace

std::string ToJson(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  std::vector<std::string> members;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool unset_choice = field.real_containing_oneof() != nullptr &&
                              !message.GetReflection()->HasField(message, &field);
    if (unset_choice) continue;
    members.push_back(absl::StrCat(base::JsonQuoted(field.name()), ":", FieldJson(message, field)));
  }
  return absl::StrCat("{", absl::StrJoin(members, ","), "}");
}

}  // namespace callboard::wire
