// Settings files in YAML, and checks of YAML text for errors that yaml-cpp does not report or
// reports wrongly.

#ifndef CALLBOARD_LIBS_CONFIG_YAML_H_
#define CALLBOARD_LIBS_CONFIG_YAML_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
  // One value, the elements of a list, or `key=value` for each entry of a map.
  std::vector<std::string> elements;
  // From 1.
  int line;
};

// Returns the settings in the YAML file at `path`, in its order. Returns INVALID_ARGUMENT, with
// file and line, for invalid YAML, an unknown or repeated key, or a value of the wrong shape.
absl::StatusOr<std::vector<FileValue>> ReadYamlFile(const std::string& path,
                                                    const std::vector<SettingField>& settings);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_YAML_H_
