#include "libs/config/setting_list.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/check.h"
#include "libs/wire/enum_text.h"

namespace callboard::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void Collect(const Descriptor& type, const SettingField& parent,
             std::vector<SettingField>& settings) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    SettingField setting = parent;
    if (!setting.name.empty()) setting.name += '.';
    setting.name += field.name();
    setting.path.push_back(&field);
    if (field.options().HasExtension(v1::setting)) {
      settings.push_back(std::move(setting));
    } else {
      CHECK(field.message_type() != nullptr) << setting.name << " lacks the option `setting`";
      Collect(*field.message_type(), setting, settings);
    }
  }
}

struct Range {
  int64_t min;
  int64_t max;
};

Range RangeOf(const SettingField& setting) {
  const v1::Setting& declaration = setting.declaration();
  return {declaration.has_min() ? declaration.min() : 0,
          declaration.has_max() ? declaration.max() : std::numeric_limits<uint32_t>::max()};
}

// The message that holds the setting, made on the way if absent.
Message& HolderOf(const SettingField& setting, Message& config) {
  Message* holder = &config;
  for (size_t i = 0; i + 1 < setting.path.size(); ++i) {
    holder = holder->GetReflection()->MutableMessage(holder, setting.path[i]);
  }
  return *holder;
}

// Number of single-character edits from `a` to `b`.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<SettingField> SettingsOf(const Descriptor& type) {
  std::vector<SettingField> settings;
  Collect(type, SettingField(), settings);
  return settings;
}

absl::Status Assign(const SettingField& setting, absl::string_view text, Message& config) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat(setting.name, ": '", text, "' is not valid; wanted: ", WantedText(setting)));
  };
  Message& holder = HolderOf(setting, config);
  const google::protobuf::Reflection& reflection = *holder.GetReflection();
  const FieldDescriptor& field = setting.field();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&holder, &field, std::string(text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_BOOL: {
      if (text != "true" && text != "false") return wrong();
      reflection.SetBool(&holder, &field, text == "true");
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      int64_t number = 0;
      const Range range = RangeOf(setting);
      if (!absl::SimpleAtoi(text, &number) || number < range.min || number > range.max) {
        return wrong();
      }
      reflection.SetUInt32(&holder, &field, static_cast<uint32_t>(number));
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = wire::FindEnumValue(*field.enum_type(), text);
      if (value == nullptr) return wrong();
      reflection.SetEnum(&holder, &field, value);
      return absl::OkStatus();
    }
    default:
      break;
  }
  CHECK(false) << setting.name << " has a type that settings cannot have";
  return absl::OkStatus();
}

std::string WantedText(const SettingField& setting) {
  if (setting.is_bool()) return "true|false";
  if (setting.field().enum_type() != nullptr) {
    return absl::StrJoin(wire::EnumTexts(*setting.field().enum_type()), "|");
  }
  if (setting.field().cpp_type() == FieldDescriptor::CPPTYPE_UINT32) {
    const Range range = RangeOf(setting);
    return absl::StrCat(range.min, "..", range.max);
  }
  return "text";
}

std::string NearestName(absl::string_view name, const std::vector<SettingField>& settings) {
  // Further off than this, a suggestion is a guess.
  size_t nearest_distance = name.size() / 3 + 2;
  std::string nearest;
  for (const SettingField& setting : settings) {
    const size_t distance = EditDistance(name, setting.name);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = setting.name;
    }
  }
  return nearest;
}

}  // namespace callboard::config
