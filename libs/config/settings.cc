#include "libs/config/settings.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "callboard/config/v1/agent.pb.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "callboard/config/v1/scheduler.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/config/setting_value.h"
#include "libs/config/yaml.h"

namespace callboard::config {

// ---- The list of settings -----------------------------------------------------------------------

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Returns the default that `parent` declares for the field; otherwise the field's default.
std::string DefaultText(const FieldDescriptor& field, const SettingField& parent) {
  if (!parent.path.empty()) {
    const auto& options = parent.field().options();
    for (int i = 0; i < options.ExtensionSize(v1::defaults); ++i) {
      const v1::Default& other = options.GetExtension(v1::defaults, i);
      if (other.name() == field.name()) return other.value();
    }
  }
  return field.options().GetExtension(v1::setting).default_value();
}

// Returns the keys of a map in `holder`, sorted.
std::set<std::string> MapKeys(const FieldDescriptor& map, const Message& holder) {
  std::set<std::string> entries;
  for (int i = 0; i < holder.GetReflection()->FieldSize(holder, &map); ++i) {
    const Message& entry = holder.GetReflection()->GetRepeatedMessage(holder, &map, i);
    entries.insert(entry.GetReflection()->GetString(entry, map.message_type()->map_key()));
  }
  return entries;
}

// Adds the settings of `type`, whose path is `parent`. `holder` is the message, or null if only the
// type is listed.
void Collect(const Descriptor& type, const Message* holder, const SettingField& parent,
             std::vector<SettingField>& settings) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    SettingField setting = parent;
    absl::StrAppend(&setting.name, parent.name.empty() ? "" : ".", field.name());
    setting.path.push_back(&field);
    if (field.options().HasExtension(v1::setting)) {
      setting.default_text = DefaultText(field, parent);
      settings.push_back(std::move(setting));
    } else if (field.is_map()) {
      CHECK(parent.entry.empty()) << setting.name << " is a map in a map";
      CHECK(field.message_type()->map_value()->message_type() != nullptr) << setting.name;
      absl::StrAppend(&setting.name, ".", kAnyEntry);
      setting.entry = kAnyEntry;
      const std::set<std::string> entries =
          holder == nullptr ? std::set<std::string>{kAnyEntry} : MapKeys(field, *holder);
      for (const std::string& entry : entries) {
        Collect(*field.message_type()->map_value()->message_type(), nullptr,
                setting.ForEntry(entry), settings);
      }
    } else {
      CHECK(field.message_type() != nullptr) << setting.name << " lacks the option `setting`";
      Collect(*field.message_type(),
              holder == nullptr ? nullptr : &holder->GetReflection()->GetMessage(*holder, &field),
              setting, settings);
    }
  }
}

// Matches `name` with `pattern` and returns the text at its placeholder, `<name>` or `<NAME>`.
// Returns an empty text if a pattern without placeholder matches, and nullopt if `name` does not
// match.
std::optional<absl::string_view> MatchEntry(absl::string_view name, const std::string& pattern) {
  if (pattern.find('<') == pattern.npos) {
    return name == pattern ? std::optional(absl::string_view()) : std::nullopt;
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, absl::ByAnyChar("<>"));
  const bool matches = absl::ConsumePrefix(&name, parts[0]) && absl::ConsumeSuffix(&name, parts[2]);
  return matches && !name.empty() ? std::optional(name) : std::nullopt;
}

}  // namespace

std::string SettingField::environment_name() const {
  return absl::StrCat("CALLBOARD_", absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{".", "_"}}));
}

SettingField SettingField::ForEntry(absl::string_view which) const {
  SettingField setting = *this;
  if (entry != kAnyEntry) return setting;
  setting.name = absl::StrReplaceAll(name, {{kAnyEntry, which}});
  setting.entry = std::string(which);
  return setting;
}

std::vector<SettingField> ListSettings(const Descriptor& type) {
  std::vector<SettingField> settings;
  Collect(type, nullptr, SettingField(), settings);
  return settings;
}

std::vector<SettingField> ListSettings(const Message& config) {
  std::vector<SettingField> settings;
  Collect(*config.GetDescriptor(), &config, SettingField(), settings);
  return settings;
}

std::optional<SettingField> FindSetting(const std::vector<SettingField>& settings,
                                        absl::string_view name) {
  for (const SettingField& setting : settings) {
    if (const auto entry = MatchEntry(name, setting.name)) return setting.ForEntry(*entry);
  }
  return std::nullopt;
}

std::vector<std::string> NamesLike(const std::vector<SettingField>& settings,
                                   absl::string_view name) {
  std::vector<std::string> names;
  for (const SettingField& setting : settings) {
    absl::string_view entry = name;
    const bool has_entry =
        absl::ConsumePrefix(&entry, setting.name.substr(0, setting.name.find(kAnyEntry)));
    entry = entry.substr(0, entry.find('.'));
    names.push_back(has_entry && !entry.empty() ? setting.ForEntry(entry).name : setting.name);
  }
  return names;
}

std::string UnknownSettingText(absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = base::Nearest(name, known);
  return absl::StrCat("unknown setting '", name, "'; ",
                      nearest.empty() ? std::string("--help lists all settings")
                                      : absl::StrCat("did you mean '", nearest, "'?"));
}

// ---- Loading ------------------------------------------------------------------------------------

namespace {

// Finds a setting by its environment variable, in which the name of an entry is in upper case.
std::optional<SettingField> FindVariable(const std::vector<SettingField>& settings,
                                         absl::string_view name) {
  for (const SettingField& setting : settings) {
    if (const auto entry = MatchEntry(name, setting.environment_name())) {
      return setting.ForEntry(absl::AsciiStrToLower(*entry));
    }
  }
  return std::nullopt;
}

// Variables that an agent sets for the processes of tasks. Tasks may run Callboard's programs,
// which must ignore them.
constexpr const char* kTaskVariables[] = {"CALLBOARD_FENCE", "CALLBOARD_PROMPT_FILE",
                                          "CALLBOARD_QUEUE_ID", "CALLBOARD_TASK_ID"};

// A flag: its name without dashes, and its value if it has one.
struct Flag {
  absl::string_view name;
  std::optional<absl::string_view> value;
};

absl::StatusOr<Flag> SplitFlag(absl::string_view argument) {
  if (!absl::ConsumePrefix(&argument, "--")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", argument, "' is not a flag; settings are given as --name=value"));
  }
  const size_t equals = argument.find('=');
  if (equals == absl::string_view::npos) return Flag{argument, std::nullopt};
  return Flag{argument.substr(0, equals), argument.substr(equals + 1)};
}

struct FlagValue {
  SettingField setting;
  std::string text;
};

// Applies the sources one after the other. A later source wins.
class Loader {
 public:
  explicit Loader(Message& config)
      : config_(config), settings_(ListSettings(*config.GetDescriptor())) {}

  void ApplyDefaults() {
    for (const SettingField& setting : settings_) {
      if (!setting.entry.empty()) continue;  // Set when the entry is added.
      if (!setting.default_text.empty()) {
        CHECK_OK(AssignText(setting, setting.default_text, config_));
      }
      loaded_.origins[setting.name] = "default";
    }
  }

  absl::Status ApplyEnvironment(const std::map<std::string, std::string>& environment) {
    for (const auto& [variable, text] : environment) {
      if (!absl::StartsWith(variable, "CALLBOARD_")) continue;
      const std::optional<SettingField> setting = FindVariable(settings_, variable);
      if (!setting.has_value()) {
        RETURN_IF_ERROR(CheckUnknownVariable(variable));
        continue;
      }
      RETURN_IF_ERROR(base::Annotate(AssignText(*setting, text, config_),
                                     absl::StrCat("environment variable ", variable)));
      loaded_.origins[setting->name] = absl::StrCat("environment ", variable);
    }
    return absl::OkStatus();
  }

  // Parses the flags without applying them.
  absl::StatusOr<std::vector<FlagValue>> ParseFlags(std::span<const char* const> arguments) {
    std::vector<FlagValue> values;
    for (size_t i = 0; i < arguments.size() && loaded_.action != Action::kHelp; ++i) {
      if (absl::string_view(arguments[i]) == "-h") {
        loaded_.action = Action::kHelp;
        continue;
      }
      ASSIGN_OR_RETURN(Flag flag, SplitFlag(arguments[i]));
      if (const std::optional<Action> action = ParseAction(flag.name)) {
        loaded_.action = *action;
        continue;
      }
      const std::optional<SettingField> setting = FindSettingForFlag(flag);
      if (!setting.has_value()) {
        return absl::InvalidArgumentError(
            UnknownSettingText(flag.name, NamesLike(settings_, flag.name)));
      }
      if (!flag.value.has_value() && ++i < arguments.size()) flag.value = arguments[i];
      if (!flag.value.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            setting->name, ": a value is missing; expected: ", AllowedValuesText(*setting)));
      }
      values.push_back({*setting, std::string(*flag.value)});
    }
    return values;
  }

  absl::Status ApplyFlags(const std::vector<FlagValue>& values) {
    for (const FlagValue& value : values) {
      RETURN_IF_ERROR(AssignText(value.setting, value.text, config_));
      loaded_.origins[value.setting.name] = "flag";
    }
    return absl::OkStatus();
  }

  absl::Status ApplyFile() {
    const std::optional<SettingField> setting = FindSetting(settings_, "config");
    const std::string path = setting.has_value() ? ValueText(*setting, config_) : "";
    if (path.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::vector<FileValue> values, ReadYamlFile(path, settings_));
    for (const FileValue& value : values) {
      const std::string place = absl::StrCat(path, ":", value.line);
      if (value.setting.name == setting->name) {
        return absl::InvalidArgumentError(absl::StrCat(place, ": a file cannot name another file"));
      }
      RETURN_IF_ERROR(
          base::Annotate(AssignElements(value.setting, value.elements, config_), place));
      loaded_.origins[value.setting.name] = absl::StrCat("file ", place);
    }
    return absl::OkStatus();
  }

  const LoadedSettings& loaded() const { return loaded_; }

 private:
  static std::optional<Action> ParseAction(absl::string_view name) {
    if (name == "help") return Action::kHelp;
    if (name == "version") return Action::kVersion;
    if (name == "print_config") return Action::kPrintConfig;
    return std::nullopt;
  }

  // Returns the setting of a flag. Adds the value of a boolean flag without one.
  std::optional<SettingField> FindSettingForFlag(Flag& flag) const {
    std::optional<SettingField> setting = FindSetting(settings_, flag.name);
    if (setting.has_value() && setting->is_bool() && !flag.value.has_value()) flag.value = "true";
    if (setting.has_value() || flag.value.has_value()) return setting;
    absl::string_view positive = flag.name;
    if (!absl::ConsumePrefix(&positive, "no-")) return std::nullopt;
    setting = FindSetting(settings_, positive);
    if (!setting.has_value() || !setting->is_bool()) return std::nullopt;
    flag.value = "false";
    return setting;
  }

  // A misspelled variable is an error, like a misspelled flag. Variables of Callboard's other
  // programs are ignored.
  absl::Status CheckUnknownVariable(const std::string& variable) const {
    std::vector<std::string> known(std::begin(kTaskVariables), std::end(kTaskVariables));
    if (std::find(known.begin(), known.end(), variable) != known.end()) return absl::OkStatus();
    for (const auto* type : {config_.GetDescriptor(), v1::DirectorConfig::descriptor(),
                             v1::AgentConfig::descriptor(), v1::SchedulerConfig::descriptor(),
                             v1::CliConfig::descriptor(), v1::DevConfig::descriptor()}) {
      const std::vector<SettingField> settings = ListSettings(*type);
      if (FindVariable(settings, variable).has_value()) return absl::OkStatus();
      for (const SettingField& setting : settings) known.push_back(setting.environment_name());
    }
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", UnknownSettingText(variable, known)));
  }

  Message& config_;
  const std::vector<SettingField> settings_;
  LoadedSettings loaded_;
};

}  // namespace

absl::StatusOr<LoadedSettings> LoadSettings(const SettingSources& sources, Message& config) {
  Loader loader(config);
  ASSIGN_OR_RETURN(const std::vector<FlagValue> flags, loader.ParseFlags(sources.arguments));
  if (loader.loaded().action == Action::kHelp || loader.loaded().action == Action::kVersion) {
    return loader.loaded();
  }
  loader.ApplyDefaults();
  RETURN_IF_ERROR(loader.ApplyEnvironment(sources.environment));
  // The flags are applied before the file because one of them may name it, and after it because
  // flags win.
  RETURN_IF_ERROR(loader.ApplyFlags(flags));
  RETURN_IF_ERROR(loader.ApplyFile());
  RETURN_IF_ERROR(loader.ApplyFlags(flags));
  return loader.loaded();
}

std::map<std::string, std::string> ProcessEnvironment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(*entry, absl::MaxSplits('=', 1));
    environment.insert(pair);
  }
  return environment;
}

}  // namespace callboard::config
