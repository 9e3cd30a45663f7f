#include "libs/wire/json.h"

#include <google/protobuf/descriptor.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libs/base/json_quoted.h"
#include "libs/wire/enum_text.h"

namespace callboard::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// The shortest text that reads back as `number`; JSON has no infinities.
std::string NumberText(double number) {
  if (!std::isfinite(number)) return "null";
  char text[32];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), number);
  return std::string(text, end);
}

std::string EnumJson(const FieldDescriptor& field, int number) {
  const auto* value = field.enum_type()->FindValueByNumber(number);
  // A newer peer's value, which we have no name for, stays a number.
  return value == nullptr ? absl::StrCat(number) : base::JsonQuoted(EnumText(*value));
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
        return base::JsonQuoted(Get(&Reflection::GetString, &Reflection::GetRepeatedString));
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

  std::string MessageJson() const {
    const Reflection& reflection = *message_.GetReflection();
    if (index_.has_value())
      return ToJson(reflection.GetRepeatedMessage(message_, &field_, *index_));
    if (!reflection.HasField(message_, &field_)) return "null";
    return ToJson(reflection.GetMessage(message_, &field_));
  }

  const Message& message_;
  const FieldDescriptor& field_;
  const std::optional<int> index_;
};

std::string FieldJson(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) return FieldReader(message, field, std::nullopt).Json();
  std::string elements;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i) {
    absl::StrAppend(&elements, i == 0 ? "" : ",", FieldReader(message, field, i).Json());
  }
  return absl::StrCat("[", elements, "]");
}

}  // namespace

std::string ToJson(const Message& message) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  std::string members;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    absl::StrAppend(&members, i == 0 ? "" : ",", base::JsonQuoted(field.name()), ":",
                    FieldJson(message, field));
  }
  return absl::StrCat("{", members, "}");
}

}  // namespace callboard::wire
