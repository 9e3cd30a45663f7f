// Settings as text: parsed and printed values, help, printed configuration and reference page.

#ifndef CALLBOARD_LIBS_CONFIG_SETTING_VALUE_H_
#define CALLBOARD_LIBS_CONFIG_SETTING_VALUE_H_

#include <google/protobuf/message.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/config/settings.h"

namespace callboard::config {

// Describes a program in its help text.
struct Program {
  std::string name;
  // One sentence.
  std::string summary;
  // Complete command lines.
  std::vector<std::string> examples;
};

// A setting as a flag.
struct FlagText {
  // --queue.max_size
  std::string flag;
  // The allowed values: `0..10000000`, `reject|block`.
  std::string allowed_values;
  // Empty if there is no default.
  std::string default_text;
  std::string help;
};

// Returns the settings of a message as flags, in order of declaration.
std::vector<FlagText> ListFlags(const google::protobuf::Descriptor& type);

// Returns the text of --help: examples, then every setting with its default.
std::string HelpText(const Program& program, const google::protobuf::Descriptor& type);

// Returns the text of --print_config: every setting with its value and origin. Secrets are not
// shown.
std::string PrintedConfig(const google::protobuf::Message& config,
                          const std::map<std::string, std::string>& origins);

// Returns a Markdown table of all settings of a program, for the reference page.
std::string ReferenceTable(const google::protobuf::Descriptor& type);

// One value, or one element of a list or map.
struct SettingElement {
  // The key of an element of a map.
  std::string key = {};
  std::string text = {};
  // In a file, from 1.
  int line = 0;
};

// These functions set a value in `config`. If the type is wrong or the value is out of range, they
// return INVALID_ARGUMENT, which names the allowed values.
//
// Parses text. Elements of a list are separated by commas: `50`, `30s`, `drop-oldest`,
// `default=1,big=2`.
absl::Status AssignText(const SettingField& setting, absl::string_view text,
                        google::protobuf::Message& config);
// Takes the elements of a list or map. Any other setting takes exactly one element.
absl::Status AssignElements(const SettingField& setting,
                            const std::vector<SettingElement>& elements,
                            google::protobuf::Message& config);

// Returns the value in the form that AssignText() takes; `(set)` or `(not set)` for a secret.
std::string ValueText(const SettingField& setting, const google::protobuf::Message& config);

// Returns the allowed values: `text`, `true|false`, `0..10000000`, `reject|block`, `1s..10m`.
std::string AllowedValuesText(const SettingField& setting);

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTING_VALUE_H_
