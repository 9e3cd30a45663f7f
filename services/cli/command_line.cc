#include "services/cli/command_line.h"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "callboard/config/v1/cli.pb.h"
#include "libs/base/nearest.h"
#include "libs/base/version.h"
#include "libs/config/settings.h"
#include "libs/config/settings_text.h"
#include "services/cli/completion.h"
#include "services/cli/dev.h"
#include "services/cli/exit_code.h"
#include "services/cli/queue_status.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using config::v1::DevConfig;

// What a command prints when it succeeds.
using Action = std::function<absl::StatusOr<std::string>(const CliConfig&)>;

// Those that a completion script can be had for.
const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

// Help texts with examples first.
class ExamplesFirst : public CLI::Formatter {
 public:
  void Add(const std::string& name, const std::vector<std::string>& examples) {
    examples_[name] = examples;
  }

  std::string make_description(const CLI::App* command) const override {
    const std::string summary = CLI::Formatter::make_description(command);
    const auto found = examples_.find(command->get_name());
    if (found == examples_.end()) return summary;
    return absl::StrCat(summary, "\nExamples:\n  ", absl::StrJoin(found->second, "\n  "), "\n\n");
  }

 private:
  std::map<std::string, std::vector<std::string>> examples_;
};

class CommandLine {
 public:
  CommandLine() : app_("Callboard: a queue for agents that do one thing at a time.", "callboard") {
    app_.formatter(formatter_);
    formatter_->Add("callboard",
                    {"callboard dev", "callboard queue-status", "callboard queue-status -o json",
                     "source <(callboard completion bash)"});
    app_.fallthrough();
    app_.require_subcommand(0, 1);
    // Refused below, with the nearest name.
    app_.allow_extras();
    app_.set_version_flag("--version", VersionText());
    AddSettings();
    // Takes its own settings, which RunDev() reads; here for the help text.
    AddCommand("dev", "Run a director, a scheduler and two agents in this process.",
               {"callboard dev"}, nullptr);
    AddCommand("queue-status", "Show how full the queue is and what it is doing.",
               {"callboard queue-status", "callboard queue-status --director.address=host:7070"},
               ShowQueueStatus);
    AddCompletion();
    AddCommand("version", "Show the version.", {"callboard version -o json"},
               [](const CliConfig& config) -> absl::StatusOr<std::string> {
                 if (config.output() != CliConfig::OUTPUT_JSON) return VersionText() + "\n";
                 return absl::StrCat("{\"version\":\"", base::kVersion, "\"}\n");
               });
  }

  int Run(const std::vector<std::string>& arguments) {
    try {
      // CLI11 takes them from the back.
      app_.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    } catch (const CLI::CallForHelp&) {
      std::fputs(app_.help().c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    } catch (const CLI::CallForVersion& version) {
      std::printf("%s\n", version.what());
      return static_cast<int>(ExitCode::kDone);
    } catch (const CLI::ParseError& error) {
      return FailUsage(error.what());
    }
    if (const std::vector<std::string> unknown = app_.remaining(true); !unknown.empty()) {
      return FailUsage(UnknownText(unknown.front()));
    }
    CliConfig config;
    const absl::StatusOr<config::LoadedSettings> loaded = Load(config);
    if (!loaded.ok()) return FailUsage(loaded.status().message());
    if (print_config_) {
      std::fputs(config::PrintedConfig(config, loaded->origins).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    }
    if (app_.got_subcommand("dev")) {
      return FailUsage("the flags of dev come after it: callboard dev --data_dir=…");
    }
    if (!action_) {
      std::fputs(app_.help().c_str(), stderr);
      return static_cast<int>(ExitCode::kUsage);
    }
    return Print(action_(config));
  }

 private:
  static std::string VersionText() { return absl::StrCat("callboard ", base::kVersion); }

  static int FailUsage(absl::string_view message) {
    std::fprintf(stderr, "Error: %s\n", std::string(message).c_str());
    return static_cast<int>(ExitCode::kUsage);
  }

  static int Print(const absl::StatusOr<std::string>& answer) {
    if (answer.ok()) {
      std::fputs(answer->c_str(), stdout);
    } else {
      std::fprintf(stderr, "Error: %s\n", std::string(answer.status().message()).c_str());
    }
    return static_cast<int>(ExitCodeOf(answer.status()));
  }

  // Every setting is a flag of every command; which value wins is libs/config's business.
  void AddSettings() {
    for (const config::FlagText& setting : config::FlagsOf(*CliConfig::descriptor())) {
      app_.add_option_function<std::string>(
              setting.flag == "--output" ? "-o,--output" : setting.flag,
              [this, flag = setting.flag](const std::string& value) {
                given_.push_back(absl::StrCat(flag, "=", value));
              },
              setting.help)
          ->type_name(setting.wanted)
          ->take_last()
          ->default_str(setting.default_text);
    }
    app_.add_flag("--print_config", print_config_,
                  "Show every setting and where its value comes from.");
  }

  CLI::App& AddCommand(const std::string& name, const std::string& summary,
                       const std::vector<std::string>& examples, const Action& action) {
    CLI::App& command = *app_.add_subcommand(name, summary);
    command.footer("Flags of all commands: callboard --help");
    formatter_->Add(name, examples);
    summaries_[name] = summary;
    command.callback([this, action] { action_ = action; });
    return command;
  }

  void AddCompletion() {
    CLI::App& command =
        AddCommand("completion", "Print a script that lets a shell complete commands and flags.",
                   {"source <(callboard completion bash)", "source <(callboard completion zsh)",
                    "callboard completion fish | source"},
                   [this](const CliConfig&) -> absl::StatusOr<std::string> {
                     if (shell_ == "bash") return BashCompletion(Words());
                     return shell_ == "zsh" ? ZshCompletion(Words()) : FishCompletion(Words());
                   });
    command.add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember(kShells));
  }

  absl::StatusOr<config::LoadedSettings> Load(CliConfig& config) const {
    std::vector<const char*> arguments;
    for (const std::string& flag : given_) arguments.push_back(flag.c_str());
    return config::LoadSettings(
        {.arguments = arguments, .environment = config::ProcessEnvironment()}, config);
  }

  // What a shell may complete.
  std::vector<CommandWords> Words() const {
    std::vector<CommandWords> words;
    for (const auto& [name, summary] : summaries_) {
      CommandWords command = {.command = {name, summary}, .flags = {}, .arguments = {}};
      if (name == "completion") command.arguments = kShells;
      command.flags =
          FlagWords(name == "dev" ? *DevConfig::descriptor() : *CliConfig::descriptor());
      words.push_back(std::move(command));
    }
    return words;
  }

  static std::vector<Word> FlagWords(const google::protobuf::Descriptor& settings) {
    std::vector<Word> words;
    for (const config::FlagText& setting : config::FlagsOf(settings)) {
      words.push_back({setting.flag, setting.help});
    }
    words.push_back({"--print_config", "Show every setting and where it comes from."});
    words.push_back({"--help", "Show the help text."});
    return words;
  }

  std::string UnknownText(const std::string& word) const {
    const bool is_flag = absl::StartsWith(word, "-");
    const std::string name = word.substr(0, word.find('='));
    if (!is_flag && !app_.get_subcommands().empty()) {
      return absl::StrCat("unexpected argument '", name, "'");
    }
    std::vector<std::string> known;
    if (is_flag) {
      for (const Word& flag : FlagWords(*CliConfig::descriptor())) known.push_back(flag.text);
    } else {
      for (const auto& [command, summary] : summaries_) known.push_back(command);
    }
    const std::string nearest = base::Nearest(name, known);
    return absl::StrCat(
        "unknown ", is_flag ? "flag '" : "command '", name, "'; ",
        nearest.empty() ? "try callboard --help" : absl::StrCat("did you mean '", nearest, "'?"));
  }

  // Shared as CLI11 wants it.
  const std::shared_ptr<ExamplesFirst> formatter_ = std::make_shared<ExamplesFirst>();
  CLI::App app_;
  std::map<std::string, std::string> summaries_;
  // Settings as flags, in the order given.
  std::vector<std::string> given_;
  bool print_config_ = false;
  std::string shell_;
  Action action_;
};

}  // namespace

int RunCommandLine(std::span<const char* const> arguments) {
  std::vector<std::string> words(arguments.begin(), arguments.end());
  // `help command` is `command --help`.
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.push_back("--help");
  }
  if (!words.empty() && words.front() == "dev") {
    std::vector<const char*> rest;
    for (size_t i = 1; i < words.size(); ++i) rest.push_back(words[i].c_str());
    return RunDev(rest);
  }
  // As a shell would show it, whoever the parent is.
  signal(SIGINT, [](int) { _exit(static_cast<int>(ExitCode::kInterrupted)); });
  return CommandLine().Run(words);
}

}  // namespace callboard::cli
