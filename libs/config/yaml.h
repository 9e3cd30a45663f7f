// Values of settings and jobs in YAML, and checks of YAML text for errors that yaml-cpp does not
// report or reports wrongly.

#ifndef CALLBOARD_LIBS_CONFIG_YAML_H_
#define CALLBOARD_LIBS_CONFIG_YAML_H_

#include <yaml-cpp/yaml.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/config/setting_value.h"
#include "libs/config/settings.h"

namespace callboard::config {

// An error and its line, counted from 1.
struct TextError {
  int line = 0;
  std::string what = {};
};

// Finds the first byte that a text file cannot have: NUL, or invalid UTF-8.
std::optional<TextError> FindBadByte(absl::string_view text);

// Finds a quoted value that is not closed at the end of the file. If the file was truncated at the
// end of a line, yaml-cpp reads such a value as a shorter one. Throws YAML::Exception for invalid
// YAML.
std::optional<TextError> FindUnclosedQuote(const std::string& text);

// Returns the name of the job whose entry contains this line, judging by the text alone. Returns an
// empty string if it cannot be determined.
std::string JobAtLine(absl::string_view text, int line);

// Returns advice about an error in this line: values that begin with `*` or `@` must be quoted,
// because these characters have another meaning in YAML. Returns an empty string if that is not the
// cause.
std::string QuoteAdvice(absl::string_view text, int line);

// A setting in a file.
struct FileValue {
  SettingField setting;
  std::vector<SettingElement> elements;
  // The line of its key, from 1.
  int line;
};

// Reads the values of settings from a YAML document. The types of the settings' fields decide what
// is a value, a list or a map. A key without a value counts as absent.
//
// Its errors are INVALID_ARGUMENT and begin with the file and the line.
class YamlReader {
 public:
  struct Options {
    std::string path;
    // Follows the line in errors: `job nightly: `.
    std::string subject = {};
    // Returns the error text for an unknown key.
    std::string (*unknown_key)(absl::string_view name,
                               const std::vector<std::string>& known) = UnknownSettingText;
  };

  // `settings` outlives the reader.
  YamlReader(Options options, const std::vector<SettingField>& settings)
      : options_(std::move(options)), settings_(settings) {}

  // Reads a map, whose keys are the names of settings after `prefix`. Returns an error for an
  // unknown or repeated key, and for a value of the wrong shape.
  absl::Status ReadMap(const YAML::Node& map, const std::string& prefix = "");

  // The values so far, in the order of the file.
  const std::vector<FileValue>& values() const { return values_; }

  absl::Status Error(int line, absl::string_view problem) const;
  absl::Status Error(const YAML::Node& node, absl::string_view problem) const;

 private:
  absl::Status ReadEntry(const YAML::Node& key, const YAML::Node& value, const std::string& name);
  absl::Status ReadValue(const SettingField& setting, const YAML::Node& key,
                         const YAML::Node& value);
  absl::Status AddElement(const YAML::Node& place, const YAML::Node& value, std::string key,
                          FileValue& to);
  bool IsGroup(const std::string& name, const std::string& key) const;

  const Options options_;
  const std::vector<SettingField>& settings_;
  std::vector<FileValue> values_;
  // The full names of all keys, which may not repeat.
  std::set<std::string> names_;
  size_t bytes_ = 0;
};

// Returns the line of a node, from 1.
int LineOf(const YAML::Node& node);

// Returns the settings in the YAML file at `path`, in its order. Returns INVALID_ARGUMENT, with
// file and line, for invalid YAML and the errors of YamlReader.
absl::StatusOr<std::vector<FileValue>> ReadYamlFile(const std::string& path,
                                                    const std::vector<SettingField>& settings);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_YAML_H_
