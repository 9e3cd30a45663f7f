#include "libs/config/setting_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/base/check.h"
#include "libs/base/nearest.h"

namespace callboard::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

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

void Collect(const Descriptor& type, const SettingField& parent,
             std::vector<SettingField>& settings) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    SettingField setting;
    setting.name =
        parent.name.empty() ? field.name() : absl::StrCat(parent.name, ".", field.name());
    setting.path = parent.path;
    setting.path.push_back(&field);
    if (field.options().HasExtension(v1::setting)) {
      setting.default_text = DefaultOf(field, parent);
      settings.push_back(std::move(setting));
    } else {
      CHECK(field.message_type() != nullptr) << setting.name << " lacks the option `setting`";
      Collect(*field.message_type(), setting, settings);
    }
  }
}

}  // namespace

std::string SettingField::environment_name() const {
  return absl::StrCat("CALLBOARD_", absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{".", "_"}}));
}

std::vector<SettingField> SettingsOf(const Descriptor& type) {
  std::vector<SettingField> settings;
  Collect(type, SettingField(), settings);
  return settings;
}

const SettingField* FindSetting(const std::vector<SettingField>& settings, absl::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [name](const SettingField& s) { return s.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

std::vector<std::string> NamesOf(const std::vector<SettingField>& settings) {
  std::vector<std::string> names;
  for (const SettingField& setting : settings) names.push_back(setting.name);
  return names;
}

std::string UnknownSettingText(absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = base::Nearest(name, known);
  return absl::StrCat("unknown setting '", name, "'; ",
                      nearest.empty() ? std::string("--help lists all settings")
                                      : absl::StrCat("did you mean '", nearest, "'?"));
}

}  // namespace callboard::config
