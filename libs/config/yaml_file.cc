#include "libs/config/yaml_file.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status_macros.h"

namespace callboard::config {
namespace {

// Walks a document along the settings it may have.
class Reader {
 public:
  Reader(const std::string& path, const std::vector<SettingField>& settings)
      : path_(path), settings_(settings) {}

  absl::Status ReadMap(const YAML::Node& map, const std::string& prefix) {
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const std::string key = entry.first.Scalar();
      const std::string name = prefix.empty() ? key : absl::StrCat(prefix, ".", key);
      if (!seen.insert(key).second)
        return Error(entry.first, absl::StrCat(name, " is there twice"));
      RETURN_IF_ERROR(ReadEntry(entry.first, entry.second, name));
    }
    return absl::OkStatus();
  }

  std::vector<FileValue> TakeValues() { return std::move(values_); }

  absl::Status Error(const YAML::Node& node, const std::string& message) const {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", node.Mark().line + 1, ": ", message));
  }

 private:
  absl::Status ReadEntry(const YAML::Node& key, const YAML::Node& value, const std::string& name) {
    const std::optional<SettingField> setting = FindSetting(settings_, name);
    if (setting.has_value()) return ReadValue(*setting, key, value);
    if (!IsGroup(name, key.Scalar())) {
      return Error(key, UnknownSettingText(name, NamesLike(settings_, name)));
    }
    if (value.IsNull()) return absl::OkStatus();  // A heading with nothing under it.
    if (!value.IsMap()) return Error(key, absl::StrCat(name, " holds settings, not a value"));
    return ReadMap(value, name);
  }

  absl::Status ReadValue(const SettingField& setting, const YAML::Node& key,
                         const YAML::Node& value) {
    FileValue result{.setting = setting, .elements = {}, .line = key.Mark().line + 1};
    const bool is_map = setting.field().is_map();
    const bool is_list = setting.field().is_repeated() && !is_map;
    if (value.IsScalar() && !setting.field().is_repeated()) {
      result.elements.push_back(value.Scalar());
    } else if (value.IsSequence() && is_list) {
      for (const YAML::Node& element : value) {
        if (!element.IsScalar())
          return Error(element, absl::StrCat(setting.name, " is a plain list"));
        result.elements.push_back(element.Scalar());
      }
    } else if (value.IsMap() && is_map) {
      for (const auto& entry : value) {
        if (!entry.second.IsScalar()) {
          return Error(entry.first, absl::StrCat(setting.name, " is a plain map"));
        }
        result.elements.push_back(absl::StrCat(entry.first.Scalar(), "=", entry.second.Scalar()));
      }
    } else {
      return Error(key, absl::StrCat(setting.name, ": wanted ",
                                     is_map    ? "a map"
                                     : is_list ? "a list"
                                               : "one value"));
    }
    values_.push_back(std::move(result));
    return absl::OkStatus();
  }

  // `key`, the last part of `name`, may be an entry of a map.
  bool IsGroup(const std::string& name, const std::string& key) const {
    for (const SettingField& setting : settings_) {
      if (absl::StartsWith(setting.OfEntry(key).name, name + ".")) return true;
    }
    return false;
  }

  const std::string& path_;
  const std::vector<SettingField>& settings_;
  std::vector<FileValue> values_;
};

}  // namespace

absl::StatusOr<std::vector<FileValue>> ReadYamlFile(const std::string& path,
                                                    const std::vector<SettingField>& settings) {
  std::ifstream file(path);
  std::error_code error;
  // A folder can be opened too.
  if (!file || std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat("config: cannot read '", path, "'"));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  Reader reader(path, settings);
  // yaml-cpp speaks in exceptions; this is where they end.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return reader.Error(documents[1], "wanted one document, found another behind `---`");
    }
    const YAML::Node document = documents.empty() ? YAML::Node() : documents[0];
    if (document.IsNull()) return std::vector<FileValue>();
    if (!document.IsMap()) return reader.Error(document, "wanted a map of settings");
    RETURN_IF_ERROR(reader.ReadMap(document, ""));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
  return reader.TakeValues();
}

}  // namespace callboard::config
