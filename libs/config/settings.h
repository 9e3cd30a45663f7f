// Settings declared once, as fields of a proto message (proto/callboard/config/v1), and given as
// flags, in a YAML file or in the environment.

#ifndef CALLBOARD_LIBS_CONFIG_SETTINGS_H_
#define CALLBOARD_LIBS_CONFIG_SETTINGS_H_

#include <google/protobuf/message.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "callboard/config/v1/options.pb.h"

namespace callboard::config {

// Stands for the name of any entry of a map of settings.
inline constexpr char kAnyEntry[] = "<name>";

// A setting: a field with the option `setting`, and the path to it.
struct SettingField {
  // As users write it: `queue.max_size`, `flow.lanes.build.max_pending`.
  std::string name;
  // From the settings message down; the last one is the setting itself.
  std::vector<const google::protobuf::FieldDescriptor*> path;
  // The entry of the map on the path, or kAnyEntry. Empty if there is no map on the path.
  std::string entry;
  // Written as in a flag. If it is empty, the field has its zero value by default.
  std::string default_text;

  const google::protobuf::FieldDescriptor& field() const { return *path.back(); }
  const v1::Setting& declaration() const { return field().options().GetExtension(v1::setting); }
  bool is_bool() const {
    return field().cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL;
  }
  // CALLBOARD_QUEUE_MAX_SIZE.
  std::string environment_name() const;
  // Returns this setting for the entry `which` in place of kAnyEntry, or unchanged if it is not in
  // a map.
  SettingField ForEntry(absl::string_view which) const;
};

// Returns all settings of a message type in order of declaration. Settings in a map are for
// kAnyEntry.
std::vector<SettingField> ListSettings(const google::protobuf::Descriptor& type);
// Returns all settings of a message. Settings in a map are listed for each of its entries.
std::vector<SettingField> ListSettings(const google::protobuf::Message& config);

// Finds a setting by the name of its flag. `settings` is the list for a message type.
std::optional<SettingField> FindSetting(const std::vector<SettingField>& settings,
                                        absl::string_view name);

// Returns the names of all settings. If `name` contains a map entry, settings of that map have its
// name.
std::vector<std::string> NamesLike(const std::vector<SettingField>& settings,
                                   absl::string_view name);

// Returns the error text for an unknown setting, with the most similar of the `known` names.
std::string UnknownSettingText(absl::string_view name, const std::vector<std::string>& known);

// Where settings come from.
struct SettingSources {
  // Without the program's name.
  std::span<const char* const> arguments;
  // The whole environment. Only variables that begin with CALLBOARD_ are used.
  std::map<std::string, std::string> environment;
};

// The action that a command line requests.
enum class Action { kRun, kHelp, kVersion, kPrintConfig };

struct LoadedSettings {
  Action action = Action::kRun;
  // The origin of each setting: `default`, `environment CALLBOARD_QUEUE_MAX_SIZE`,
  // `file callboard.yaml:3`, `flag`. For entries of a map only the settings that were given.
  std::map<std::string, std::string> origins;
};

// Fills `config`, a settings message. A flag wins over the file, the file over the environment, the
// environment over the default.
//
// Flags are --queue.max_size=50 or --queue.max_size 50; for a boolean also --insecure_listen and
// --no-insecure_listen; a list is separated by commas. --config names the file. --help, --version
// and --print_config request another action than to run.
//
// An entry of a map of settings exists as soon as one of its settings is given, as in
// --flow.lanes.build.max_pending=20; the others have their defaults. The name of an entry consists
// of lower-case letters, digits, _ and -. It is in upper case in the environment,
// CALLBOARD_FLOW_LANES_BUILD_MAX_PENDING, where shells do not allow -.
//
// Returns INVALID_ARGUMENT for an argument that is not a flag, an unknown setting (the error names
// the most similar one), and a value of the wrong type or out of range. The error names the source.
// `config` is unspecified after an error.
absl::StatusOr<LoadedSettings> LoadSettings(const SettingSources& sources,
                                            google::protobuf::Message& config);

// Returns the environment of this process.
std::map<std::string, std::string> ProcessEnvironment();

}  // namespace callboard::config

#endif  // CALLBOARD_LIBS_CONFIG_SETTINGS_H_
