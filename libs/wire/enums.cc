#include "libs/wire/enums.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "callboard/v1/options.pb.h"

namespace callboard::wire {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;

std::string EnumText(const EnumValueDescriptor& value) {
  // buf's linter requires that every zero value is named <PREFIX>UNSPECIFIED.
  const absl::string_view prefix =
      absl::StripSuffix(value.type()->FindValueByNumber(0)->name(), "UNSPECIFIED");
  const absl::string_view name = absl::StripPrefix(value.name(), prefix);
  switch (value.type()->options().GetExtension(v1::text_case)) {
    case v1::TEXT_CASE_UPPER:
      return std::string(name);
    case v1::TEXT_CASE_SNAKE:
      return absl::AsciiStrToLower(name);
    default:
      return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
  }
}

std::string EnumText(const EnumDescriptor& type, int number) {
  const EnumValueDescriptor* value = type.FindValueByNumber(number);
  return value == nullptr ? absl::StrCat(number) : EnumText(*value);
}

const EnumValueDescriptor* FindEnumValue(const EnumDescriptor& type, absl::string_view text) {
  for (int i = 0; i < type.value_count(); ++i) {
    const EnumValueDescriptor* value = type.value(i);
    if (value->number() != 0 && EnumText(*value) == text) return value;
  }
  return nullptr;
}

std::vector<std::string> EnumTexts(const EnumDescriptor& type) {
  std::vector<std::string> texts;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() != 0) texts.push_back(EnumText(*type.value(i)));
  }
  return texts;
}

}  // namespace callboard::wire
