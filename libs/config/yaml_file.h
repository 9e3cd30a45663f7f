#ifndef CALLBOARD_LIBS_CONFIG_YAML_FILE_H_
#define CALLBOARD_LIBS_CONFIG_YAML_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/config/setting_list.h"

namespace callboard::config {

// A setting that a file gives.
struct FileValue {
  SettingField setting;
  // One, or the elements of a list, or `key=value` of a map.
  std::vector<std::string> elements;
  // From 1.
  int line;
};

// The settings that the YAML file at `path` gives, in its order. INVALID_ARGUMENT, naming file and
// line, for what is no YAML, an unknown or repeated key, or a value of the wrong shape.
absl::StatusOr<std::vector<FileValue>> ReadYamlFile(const std::string& path,
                                                    const std::vector<SettingField>& settings);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_YAML_FILE_H_
