#include "libs/config/setting_list.h"

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/base/nearest.h"

namespace callboard::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The default that the field which holds the setting's message gives it, or else its own.
std::string DefaultOf(const FieldDescriptor& field, const SettingField& parent) {
  if (!parent.path.empty()) {
    const auto& options = parent.field().options();
    for (int i = 0; i < options.ExtensionSize(v1::defaults); ++i) {
      const v1::Default& other = options.GetExtension(v1::defaults, i);
      if (other.name() == field.name()) return other.value();
    }
  }
  return field.options().GetExtension(v1::setting).default_value();
}

// The keys of a map in `holder`, in order.
std::set<std::string> EntriesOf(const FieldDescriptor& map, const Message& holder) {
  std::set<std::string> entries;
  for (int i = 0; i < holder.GetReflection()->FieldSize(holder, &map); ++i) {
    const Message& entry = holder.GetReflection()->GetRepeatedMessage(holder, &map, i);
    entries.insert(entry.GetReflection()->GetString(entry, map.message_type()->map_key()));
  }
  return entries;
}

// Adds the settings of `type`, to which `parent` leads; `holder` is null when it is not filled in.
void Collect(const Descriptor& type, const Message* holder, const SettingField& parent,
             std::vector<SettingField>& settings) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    SettingField setting = parent;
    absl::StrAppend(&setting.name, parent.name.empty() ? "" : ".", field.name());
    setting.path.push_back(&field);
    if (field.options().HasExtension(v1::setting)) {
      setting.default_text = DefaultOf(field, parent);
      settings.push_back(std::move(setting));
    } else if (field.is_map()) {
      CHECK(parent.entry.empty()) << setting.name << " is a map in a map";
      CHECK(field.message_type()->map_value()->message_type() != nullptr) << setting.name;
      absl::StrAppend(&setting.name, ".", kAnyEntry);
      setting.entry = kAnyEntry;
      const std::set<std::string> entries =
          holder == nullptr ? std::set<std::string>{kAnyEntry} : EntriesOf(field, *holder);
      for (const std::string& entry : entries) {
        Collect(*field.message_type()->map_value()->message_type(), nullptr, setting.OfEntry(entry),
                settings);
      }
    } else {
      CHECK(field.message_type() != nullptr) << setting.name << " lacks the option `setting`";
      Collect(*field.message_type(),
              holder == nullptr ? nullptr : &holder->GetReflection()->GetMessage(*holder, &field),
              setting, settings);
    }
  }
}

// The entry that `name` has where `pattern` has its placeholder, `<name>` or `<NAME>`; empty when
// it is `pattern`, which has none; nothing when it is not like `pattern`.
std::optional<absl::string_view> EntryIn(absl::string_view name, const std::string& pattern) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, absl::ByAnyChar("<>"));
  if (parts.size() == 1) return name == pattern ? std::optional(absl::string_view()) : std::nullopt;
  const bool alike = absl::ConsumePrefix(&name, parts[0]) && absl::ConsumeSuffix(&name, parts[2]);
  return alike && !name.empty() ? std::optional(name) : std::nullopt;
}

}  // namespace

std::string SettingField::environment_name() const {
  return absl::StrCat("CALLBOARD_", absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{".", "_"}}));
}

SettingField SettingField::OfEntry(absl::string_view which) const {
  SettingField setting = *this;
  if (entry != kAnyEntry) return setting;
  setting.name = absl::StrReplaceAll(name, {{kAnyEntry, which}});
  setting.entry = std::string(which);
  return setting;
}

std::vector<SettingField> SettingsOf(const Descriptor& type) {
  std::vector<SettingField> settings;
  Collect(type, nullptr, SettingField(), settings);
  return settings;
}

std::vector<SettingField> SettingsOf(const Message& config) {
  std::vector<SettingField> settings;
  Collect(*config.GetDescriptor(), &config, SettingField(), settings);
  return settings;
}

std::optional<SettingField> FindSetting(const std::vector<SettingField>& settings,
                                        absl::string_view name) {
  for (const SettingField& setting : settings) {
    if (const auto entry = EntryIn(name, setting.name)) return setting.OfEntry(*entry);
  }
  return std::nullopt;
}

std::optional<SettingField> FindVariable(const std::vector<SettingField>& settings,
                                         absl::string_view name) {
  for (const SettingField& setting : settings) {
    if (const auto entry = EntryIn(name, setting.environment_name())) {
      return setting.OfEntry(absl::AsciiStrToLower(*entry));
    }
  }
  return std::nullopt;
}

std::vector<std::string> NamesLike(const std::vector<SettingField>& settings,
                                   absl::string_view name) {
  std::vector<std::string> names;
  for (const SettingField& setting : settings) {
    absl::string_view entry = name;
    const bool is_about_entry =
        absl::ConsumePrefix(&entry, setting.name.substr(0, setting.name.find(kAnyEntry)));
    entry = entry.substr(0, entry.find('.'));
    names.push_back(is_about_entry && !entry.empty() ? setting.OfEntry(entry).name : setting.name);
  }
  return names;
}

std::string UnknownSettingText(absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = base::Nearest(name, known);
  return absl::StrCat("unknown setting '", name, "'; ",
                      nearest.empty() ? std::string("--help lists all settings")
                                      : absl::StrCat("did you mean '", nearest, "'?"));
}

}  // namespace callboard::config
