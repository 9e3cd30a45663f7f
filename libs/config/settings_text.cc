#include "libs/config/settings_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/config/setting_list.h"
#include "libs/config/setting_value.h"

namespace callboard::config {

std::vector<FlagText> FlagsOf(const google::protobuf::Descriptor& type) {
  std::vector<FlagText> flags;
  for (const SettingField& setting : SettingsOf(type)) {
    flags.push_back({.flag = absl::StrCat("--", setting.name),
                     .wanted = WantedText(setting),
                     .default_text = setting.default_text,
                     .help = setting.declaration().help()});
  }
  return flags;
}

std::string HelpText(const Program& program, const google::protobuf::Descriptor& type) {
  std::string text = absl::StrCat(program.name, ": ", program.summary, "\n\nExamples:\n");
  for (const std::string& example : program.examples) absl::StrAppend(&text, "  ", example, "\n");
  absl::StrAppend(&text,
                  "\nSettings, as flags, as keys of the file that --config names, or in the "
                  "environment\n(--queue.max_size is CALLBOARD_QUEUE_MAX_SIZE). A flag wins over "
                  "the file, the file over\nthe environment.\n\n");
  for (const FlagText& flag : FlagsOf(type)) {
    absl::StrAppend(&text, "  ", flag.flag, "=<", flag.wanted, ">\n      ", flag.help);
    if (!flag.default_text.empty()) absl::StrAppend(&text, " Default: ", flag.default_text, ".");
    text += '\n';
  }
  absl::StrAppend(&text,
                  "\n  --print_config   Show every setting and where its value comes from.\n"
                  "  --version        Show the version.\n"
                  "  --help, -h       Show this text.\n");
  return text;
}

std::string PrintedConfig(const google::protobuf::Message& config,
                          const std::map<std::string, std::string>& origins) {
  std::string text;
  for (const SettingField& setting : SettingsOf(config)) {
    const auto origin = origins.find(setting.name);
    absl::StrAppend(&text, setting.name, " = ", ValueText(setting, config), "  # ",
                    origin == origins.end() ? "default" : origin->second, "\n");
  }
  return text;
}

std::string ReferenceTable(const google::protobuf::Descriptor& type) {
  std::string text = "| setting | values | default | what it does |\n|---|---|---|---|\n";
  for (const SettingField& setting : SettingsOf(type)) {
    const std::string unit = setting.declaration().unit();
    absl::StrAppend(
        &text, "| `", setting.name, "` | ", absl::StrReplaceAll(WantedText(setting), {{"|", ", "}}),
        unit.empty() ? "" : absl::StrCat(" ", unit), " | ",
        setting.default_text.empty() ? "" : absl::StrCat("`", setting.default_text, "`"), " | ",
        setting.declaration().help(), " |\n");
  }
  return text;
}

}  // namespace callboard::config
