#include "libs/config/settings.h"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "callboard/config/v1/agent.pb.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "callboard/config/v1/scheduler.pb.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/config/setting_list.h"
#include "libs/config/setting_value.h"
#include "libs/config/yaml_file.h"

namespace callboard::config {
namespace {

using google::protobuf::Message;

// Variables that Callboard itself gives to the processes of tasks, where its programs run too.
constexpr const char* kTaskVariables[] = {"CALLBOARD_FENCE", "CALLBOARD_PROMPT_FILE",
                                          "CALLBOARD_QUEUE_ID", "CALLBOARD_TASK_ID"};

// What a flag says: its name without dashes, and its value where it has one.
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

// Applies one source after the other; a later one wins.
class Loader {
 public:
  explicit Loader(Message& config)
      : config_(config), settings_(SettingsOf(*config.GetDescriptor())) {}

  void ApplyDefaults() {
    for (const SettingField& setting : settings_) {
      if (!setting.entry.empty()) continue;  // An entry gets them when it is first spoken of.
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
        RETURN_IF_ERROR(RefuseUnknown(variable));
        continue;
      }
      RETURN_IF_ERROR(base::Annotate(AssignText(*setting, text, config_),
                                     absl::StrCat("environment variable ", variable)));
      loaded_.origins[setting->name] = absl::StrCat("environment ", variable);
    }
    return absl::OkStatus();
  }

  // Finds out what the flags say, before anything is applied.
  absl::StatusOr<std::vector<FlagValue>> ParseFlags(std::span<const char* const> arguments) {
    std::vector<FlagValue> values;
    for (size_t i = 0; i < arguments.size() && loaded_.ask != Ask::kHelp; ++i) {
      if (absl::string_view(arguments[i]) == "-h") {
        loaded_.ask = Ask::kHelp;
        continue;
      }
      ASSIGN_OR_RETURN(Flag flag, SplitFlag(arguments[i]));
      if (const std::optional<Ask> ask = AskOf(flag.name)) {
        loaded_.ask = *ask;
        continue;
      }
      const std::optional<SettingField> setting = Setting(flag);
      if (!setting.has_value()) {
        return absl::InvalidArgumentError(
            UnknownSettingText(flag.name, NamesLike(settings_, flag.name)));
      }
      if (!flag.value.has_value() && ++i < arguments.size()) flag.value = arguments[i];
      if (!flag.value.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat(setting->name, ": a value is missing; wanted: ", WantedText(*setting)));
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
  static std::optional<Ask> AskOf(absl::string_view name) {
    if (name == "help") return Ask::kHelp;
    if (name == "version") return Ask::kVersion;
    if (name == "print_config") return Ask::kPrintConfig;
    return std::nullopt;
  }

  // The setting a flag means; fills in the value of a boolean that stands alone.
  std::optional<SettingField> Setting(Flag& flag) const {
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

  // A misspelt variable is an error as a misspelt flag is; one of another of our binaries is not.
  absl::Status RefuseUnknown(const std::string& variable) const {
    std::vector<std::string> known(std::begin(kTaskVariables), std::end(kTaskVariables));
    if (std::find(known.begin(), known.end(), variable) != known.end()) return absl::OkStatus();
    for (const auto* type : {config_.GetDescriptor(), v1::DirectorConfig::descriptor(),
                             v1::AgentConfig::descriptor(), v1::SchedulerConfig::descriptor(),
                             v1::CliConfig::descriptor(), v1::DevConfig::descriptor()}) {
      const std::vector<SettingField> settings = SettingsOf(*type);
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

absl::StatusOr<LoadedSettings> LoadSettings(const Sources& sources, Message& config) {
  Loader loader(config);
  ASSIGN_OR_RETURN(const std::vector<FlagValue> flags, loader.ParseFlags(sources.arguments));
  if (loader.loaded().ask == Ask::kHelp || loader.loaded().ask == Ask::kVersion) {
    return loader.loaded();
  }
  loader.ApplyDefaults();
  RETURN_IF_ERROR(loader.ApplyEnvironment(sources.environment));
  // Before the file, because a flag may name it; after it, because flags win.
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
