#include "libs/config/settings.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/config/setting_list.h"

namespace callboard::config {
namespace {

using google::protobuf::Message;

const SettingField* Find(const std::vector<SettingField>& settings, absl::string_view name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [name](const SettingField& s) { return s.name == name; });
  return found == settings.end() ? nullptr : &*found;
}

absl::Status UnknownSetting(absl::string_view name, const std::vector<SettingField>& settings) {
  const std::string nearest = NearestName(name, settings);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown setting '", name, "'",
                   nearest.empty() ? std::string("; --help lists all settings")
                                   : absl::StrCat("; did you mean '", nearest, "'?")));
}

// A flag taken apart: its name without dashes, and its value where it has one.
struct Flag {
  absl::string_view name;
  std::optional<absl::string_view> value;
};

absl::StatusOr<Flag> SplitFlag(absl::string_view argument) {
  if (!absl::StartsWith(argument, "--")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", argument, "' is not a flag; settings are given as --name=value"));
  }
  argument.remove_prefix(2);
  const size_t equals = argument.find('=');
  if (equals == absl::string_view::npos) return Flag{argument, std::nullopt};
  return Flag{argument.substr(0, equals), argument.substr(equals + 1)};
}

}  // namespace

absl::StatusOr<Ask> ParseFlags(std::span<const char* const> arguments, Message& config) {
  const std::vector<SettingField> settings = SettingsOf(*config.GetDescriptor());
  for (const SettingField& setting : settings) {
    // An absent default leaves the field at its zero.
    const std::string& text = setting.declaration().default_value();
    if (!text.empty()) CHECK_OK(Assign(setting, text, config));
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (absl::string_view(arguments[i]) == "-h") return Ask::kHelp;
    ASSIGN_OR_RETURN(Flag flag, SplitFlag(arguments[i]));
    if (flag.name == "help") return Ask::kHelp;
    if (flag.name == "version") return Ask::kVersion;
    const SettingField* setting = Find(settings, flag.name);
    if (setting == nullptr && absl::StartsWith(flag.name, "no-") && !flag.value.has_value()) {
      setting = Find(settings, flag.name.substr(3));
      if (setting != nullptr && setting->is_bool()) flag.value = "false";
    }
    if (setting == nullptr) return UnknownSetting(flag.name, settings);
    if (!flag.value.has_value() && setting->is_bool()) flag.value = "true";
    if (!flag.value.has_value()) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(setting->name, ": a value is missing; wanted: ", WantedText(*setting)));
      }
      flag.value = arguments[i];
    }
    RETURN_IF_ERROR(Assign(*setting, *flag.value, config));
  }
  return Ask::kRun;
}

std::string HelpText(const Program& program, const google::protobuf::Descriptor& type) {
  std::string text = absl::StrCat(program.name, ": ", program.summary, "\n\nExamples:\n");
  for (const std::string& example : program.examples) absl::StrAppend(&text, "  ", example, "\n");
  absl::StrAppend(&text, "\nSettings:\n");
  for (const SettingField& setting : SettingsOf(type)) {
    const v1::Setting& declaration = setting.declaration();
    absl::StrAppend(&text, "  --", setting.name, "=<", WantedText(setting), ">\n      ",
                    declaration.help());
    if (!declaration.default_value().empty()) {
      absl::StrAppend(&text, " Default: ", declaration.default_value(), ".");
    }
    text += '\n';
  }
  absl::StrAppend(&text, "\n  --help, -h   Show this text.\n  --version    Show the version.\n");
  return text;
}

}  // namespace callboard::config
