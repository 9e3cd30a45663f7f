#include "libs/config/setting_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/base/check.h"

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
  // Further off than this, a suggestion is a guess.
  size_t nearest_distance = name.size() / 3 + 2;
  std::string nearest;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < nearest_distance) {
      nearest_distance = distance;
      nearest = candidate;
    }
  }
  return absl::StrCat("unknown setting '", name, "'; ",
                      nearest.empty() ? std::string("--help lists all settings")
                                      : absl::StrCat("did you mean '", nearest, "'?"));
}

}  // namespace callboard::config
