#include "libs/config/setting_value.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/config/settings.h"
#include "libs/wire/enums.h"
#include "libs/wire/time.h"

namespace callboard::config {

std::vector<FlagText> ListFlags(const google::protobuf::Descriptor& type) {
  std::vector<FlagText> flags;
  for (const SettingField& setting : ListSettings(type)) {
    flags.push_back({.flag = absl::StrCat("--", setting.name),
                     .allowed_values = AllowedValuesText(setting),
                     .default_text = setting.default_text,
                     .help = setting.declaration().help()});
  }
  return flags;
}

std::string HelpText(const Program& program, const google::protobuf::Descriptor& type) {
  std::string text = absl::StrCat(program.name, ": ", program.summary, "\n\nExamples:\n");
  for (const std::string& example : program.examples) absl::StrAppend(&text, "  ", example, "\n");
  absl::StrAppend(&text,
                  "\nSettings, as flags, as keys of the file that --config names, or in the "
                  "environment\n(--queue.max_size is CALLBOARD_QUEUE_MAX_SIZE). A flag wins over "
                  "the file, the file over\nthe environment.\n\n");
  for (const FlagText& flag : ListFlags(type)) {
    absl::StrAppend(&text, "  ", flag.flag, "=<", flag.allowed_values, ">\n      ", flag.help);
    if (!flag.default_text.empty()) absl::StrAppend(&text, " Default: ", flag.default_text, ".");
    text += '\n';
  }
  absl::StrAppend(&text,
                  "\n  --print_config   Show every setting and where its value comes from.\n"
                  "  --version        Show the version.\n"
                  "  --help, -h       Show this text.\n");
  return text;
}

std::string PrintedConfig(const google::protobuf::Message& config,
                          const std::map<std::string, std::string>& origins) {
  std::string text;
  for (const SettingField& setting : ListSettings(config)) {
    const auto origin = origins.find(setting.name);
    absl::StrAppend(&text, setting.name, " = ", ValueText(setting, config), "  # ",
                    origin == origins.end() ? "default" : origin->second, "\n");
  }
  return text;
}

std::string ReferenceTable(const google::protobuf::Descriptor& type) {
  std::string text = "| setting | values | default | what it does |\n|---|---|---|---|\n";
  for (const SettingField& setting : ListSettings(type)) {
    const std::string unit = setting.declaration().unit();
    absl::StrAppend(
        &text, "| `", setting.name, "` | ",
        absl::StrReplaceAll(AllowedValuesText(setting), {{"|", ", "}}),
        unit.empty() ? "" : absl::StrCat(" ", unit), " | ",
        setting.default_text.empty() ? "" : absl::StrCat("`", setting.default_text, "`"), " | ",
        setting.declaration().help(), " |\n");
  }
  return text;
}

namespace {

using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;

struct Range {
  int64_t min;
  int64_t max;
};

// Limit on the name of an entry in a map of settings.
constexpr size_t kEntryBytesMax = 64;

Range AllowedRange(const FieldDescriptor& field) {
  const v1::Setting& declaration = field.options().GetExtension(v1::setting);
  return {declaration.has_min() ? declaration.min() : 0,
          declaration.has_max() ? declaration.max() : std::numeric_limits<uint32_t>::max()};
}

template <class T>
bool Within(const Range& range, T number) {
  return number >= static_cast<T>(range.min) && number <= static_cast<T>(range.max);
}

bool IsDuration(const FieldDescriptor& field) {
  return field.message_type() == Duration::descriptor();
}

bool IsTimestamp(const FieldDescriptor& field) {
  return field.message_type() == Timestamp::descriptor();
}

// Stores one scalar in `field` of `holder`. Returns false if `text` is not a valid value.
bool SetScalar(const FieldDescriptor& field, const Range& range, const std::string& text,
               Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&holder, &field, text);
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&holder, &field, text == "true");
      return text == "true" || text == "false";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t number = 0;
      if (!absl::SimpleAtoi(text, &number) || !Within(range, number)) return false;
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
        reflection.SetUInt64(&holder, &field, number);
      } else {
        reflection.SetUInt32(&holder, &field, static_cast<uint32_t>(number));
      }
      return true;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number = 0;
      if (!absl::SimpleAtod(text, &number) || !Within(range, number)) return false;
      reflection.SetDouble(&holder, &field, number);
      return true;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value = wire::FindEnumValue(*field.enum_type(), text);
      if (value != nullptr) reflection.SetEnum(&holder, &field, value);
      return value != nullptr;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      if (IsTimestamp(field)) {
        const std::optional<absl::Time> time = wire::ParseTime(text);
        if (!time.has_value()) return false;
        reflection.MutableMessage(&holder, &field)->CopyFrom(wire::ToProto(*time));
        return true;
      }
      CHECK(IsDuration(field)) << field.full_name() << " has a type that settings cannot have";
      absl::Duration duration;
      if (!absl::ParseDuration(text, &duration) ||
          !Within(range, absl::ToDoubleSeconds(duration))) {
        return false;
      }
      reflection.MutableMessage(&holder, &field)->CopyFrom(wire::ToProto(duration));
      return true;
    }
    default:
      CHECK(false) << field.full_name() << " has a type that settings cannot have";
      return false;
  }
}

// Returns the index of the entry `name` in a map, or -1.
int IndexOf(const std::string& name, const FieldDescriptor& map, const Message& holder) {
  for (int i = 0; i < holder.GetReflection()->FieldSize(holder, &map); ++i) {
    const Message& entry = holder.GetReflection()->GetRepeatedMessage(holder, &map, i);
    if (entry.GetReflection()->GetString(entry, map.message_type()->map_key()) == name) return i;
  }
  return -1;
}

// Returns the settings of the entry `name` of a map. Adds the entry, with default settings, if it
// is absent. The settings of an entry cannot be lists.
Message& FindOrAddEntry(const std::string& name, const FieldDescriptor& map, Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  const FieldDescriptor* value = map.message_type()->map_value();
  if (const int index = IndexOf(name, map, holder); index >= 0) {
    Message& entry = *reflection.MutableRepeatedMessage(&holder, &map, index);
    return *entry.GetReflection()->MutableMessage(&entry, value);
  }
  Message& entry = *reflection.AddMessage(&holder, &map);
  entry.GetReflection()->SetString(&entry, map.message_type()->map_key(), name);
  Message& settings = *entry.GetReflection()->MutableMessage(&entry, value);
  for (int i = 0; i < value->message_type()->field_count(); ++i) {
    const FieldDescriptor& field = *value->message_type()->field(i);
    const std::string& text = field.options().GetExtension(v1::setting).default_value();
    CHECK(SetScalar(field, AllowedRange(field), text, settings)) << field.full_name();
  }
  return settings;
}

// The message that holds the setting, made on the way if absent.
Message& HolderMessage(const SettingField& setting, Message& config) {
  Message* holder = &config;
  for (size_t i = 0; i + 1 < setting.path.size(); ++i) {
    const FieldDescriptor& field = *setting.path[i];
    holder = field.is_map() ? &FindOrAddEntry(setting.entry, field, *holder)
                            : holder->GetReflection()->MutableMessage(holder, &field);
  }
  return *holder;
}

// REQUIRES: an entry on the way is there.
const Message& HolderMessage(const SettingField& setting, const Message& config) {
  const Message* holder = &config;
  for (size_t i = 0; i + 1 < setting.path.size(); ++i) {
    const FieldDescriptor& field = *setting.path[i];
    if (field.is_map()) {
      const int index = IndexOf(setting.entry, field, *holder);
      CHECK(index >= 0) << setting.name;
      const Message& entry = holder->GetReflection()->GetRepeatedMessage(*holder, &field, index);
      holder = &entry.GetReflection()->GetMessage(entry, field.message_type()->map_value());
    } else {
      holder = &holder->GetReflection()->GetMessage(*holder, &field);
    }
  }
  return *holder;
}

std::string ScalarText(const FieldDescriptor& field, const Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(holder, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(holder, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection.GetUInt32(holder, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection.GetUInt64(holder, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(reflection.GetDouble(holder, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return wire::EnumText(*reflection.GetEnum(holder, &field));
    default:
      return absl::FormatDuration(
          *wire::FromProto(static_cast<const Duration&>(reflection.GetMessage(holder, &field))));
  }
}

bool SetMap(const FieldDescriptor& field, const Range& range,
            const std::vector<SettingElement>& elements, Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  reflection.ClearField(&holder, &field);
  for (const SettingElement& element : elements) {
    Message& entry = *reflection.AddMessage(&holder, &field);
    entry.GetReflection()->SetString(&entry, field.message_type()->map_key(), element.key);
    if (!SetScalar(*field.message_type()->map_value(), range, element.text, entry)) return false;
  }
  return true;
}

bool SetList(const FieldDescriptor& field, const std::vector<SettingElement>& elements,
             Message& holder) {
  const Reflection& reflection = *holder.GetReflection();
  reflection.ClearField(&holder, &field);
  for (const SettingElement& element : elements) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const auto* value = wire::FindEnumValue(*field.enum_type(), element.text);
      if (value == nullptr) return false;
      reflection.AddEnum(&holder, &field, value);
    } else {
      CHECK(field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) << field.full_name();
      reflection.AddString(&holder, &field, element.text);
    }
  }
  return true;
}

std::string AllowedScalarText(const FieldDescriptor& field, const Range& range) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true|false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrJoin(wire::EnumTexts(*field.enum_type()), "|");
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (IsTimestamp(field)) return "a time such as 2026-01-31T08:00:00Z";
      if (!field.options().HasExtension(v1::setting)) {
        return "a duration such as 90s, 5m or 1h30m";
      }
      return absl::StrCat(absl::FormatDuration(absl::Seconds(range.min)), "..",
                          absl::FormatDuration(absl::Seconds(range.max)));
    default:
      return absl::StrCat(range.min, "..", range.max);
  }
}

absl::Status InvalidValue(const SettingField& setting,
                          const std::vector<SettingElement>& elements) {
  const std::string text =
      absl::StrJoin(elements, ",", [&setting](std::string* out, const SettingElement& element) {
        absl::StrAppend(out, element.key, setting.field().is_map() ? "=" : "", element.text);
      });
  return absl::InvalidArgumentError(absl::StrCat(
      setting.name, ": '", setting.declaration().secret() ? "(secret)" : base::EscapeForError(text),
      "' is not valid; expected: ", AllowedValuesText(setting)));
}

absl::Status CheckEntryName(const SettingField& setting) {
  const std::string& name = setting.entry;
  const bool is_valid =
      name.size() <= kEntryBytesMax &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") == name.npos &&
      name.find_first_of("_-") != 0;
  if (is_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(setting.name, ": '", name,
                   "' is not a valid name; expected: lower-case letters, digits, _ and -, ",
                   "the first a letter or digit, at most ", kEntryBytesMax, " of them"));
}

}  // namespace

absl::Status AssignElements(const SettingField& setting,
                            const std::vector<SettingElement>& elements, Message& config) {
  RETURN_IF_ERROR(CheckEntryName(setting));
  const FieldDescriptor& field = setting.field();
  Message& holder = HolderMessage(setting, config);
  const Range range = AllowedRange(field);
  bool is_valid = true;
  if (field.is_map()) {
    is_valid = SetMap(field, range, elements, holder);
  } else if (field.is_repeated()) {
    is_valid = SetList(field, elements, holder);
  } else {
    is_valid = elements.size() == 1 && SetScalar(field, range, elements.front().text, holder);
  }
  return is_valid ? absl::OkStatus() : InvalidValue(setting, elements);
}

absl::Status AssignText(const SettingField& setting, absl::string_view text, Message& config) {
  const FieldDescriptor& field = setting.field();
  if (!field.is_repeated()) return AssignElements(setting, {{.text = std::string(text)}}, config);
  std::vector<SettingElement> elements;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const size_t equals = field.is_map() ? part.find('=') : 0;
    if (field.is_map() && (equals == 0 || equals == part.npos)) {
      return InvalidValue(setting, {{.text = std::string(text)}});
    }
    elements.push_back({.key = std::string(part.substr(0, equals)),
                        .text = std::string(part.substr(field.is_map() ? equals + 1 : 0))});
  }
  return AssignElements(setting, elements, config);
}

std::string ValueText(const SettingField& setting, const Message& config) {
  const FieldDescriptor& field = setting.field();
  const Message& holder = HolderMessage(setting, config);
  const Reflection& reflection = *holder.GetReflection();
  if (setting.declaration().secret()) {
    return ScalarText(field, holder).empty() ? "(not set)" : "(set)";
  }
  if (field.has_optional_keyword() && !reflection.HasField(holder, &field)) return "";
  if (!field.is_repeated()) return ScalarText(field, holder);
  std::vector<std::string> elements;
  std::map<std::string, std::string> entries;
  for (int i = 0; i < reflection.FieldSize(holder, &field); ++i) {
    if (!field.is_map()) {
      elements.push_back(reflection.GetRepeatedString(holder, &field, i));
      continue;
    }
    const Message& entry = reflection.GetRepeatedMessage(holder, &field, i);
    entries[ScalarText(*field.message_type()->map_key(), entry)] =
        ScalarText(*field.message_type()->map_value(), entry);
  }
  return field.is_map() ? absl::StrJoin(entries, ",", absl::PairFormatter("="))
                        : absl::StrJoin(elements, ",");
}

std::string AllowedValuesText(const SettingField& setting) {
  const FieldDescriptor& field = setting.field();
  const Range range = AllowedRange(field);
  if (field.is_map()) {
    return absl::StrCat("key=", AllowedScalarText(*field.message_type()->map_value(), range), ",…");
  }
  return absl::StrCat(AllowedScalarText(field, range), field.is_repeated() ? ",…" : "");
}

}  // namespace callboard::config
