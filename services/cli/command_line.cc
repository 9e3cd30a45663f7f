#include "services/cli/command_line.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
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
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "callboard/config/v1/cli.pb.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/config/setting_value.h"
#include "libs/config/settings.h"
#include "services/cli/answer_text.h"
#include "services/cli/db_commands.h"
#include "services/cli/dev.h"
#include "services/cli/job_commands.h"
#include "services/cli/task_board.h"
#include "services/cli/task_commands.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using config::v1::DevConfig;

// ---- Scripts with which shells complete the command line ----------------------------------------

// A word that can be completed, and its help text.
struct Word {
  std::string text;
  std::string help;
};

// A command and the words that may follow it.
struct CommandWords {
  Word command;
  // With leading dashes.
  std::vector<Word> flags;
  // Fixed values of its argument.
  std::vector<std::string> arguments;
  // Nested commands, as in `db verify`. They have no further nested commands.
  std::vector<CommandWords> commands;
};

// Returns `text` in single quotes, valid in all three shells.
std::string ShellQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::vector<std::string> NamesOf(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands) names.push_back(command.command.text);
  return names;
}

std::vector<std::string> WordsAfter(const CommandWords& command) {
  std::vector<std::string> words = NamesOf(command.commands);
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  for (const Word& flag : command.flags) words.push_back(flag.text);
  return words;
}

// Returns a case clause for each command: `'name') <before><words><after> ;;`. `parent` precedes
// the name, as in `'db verify'`.
std::string CaseClauses(const std::vector<CommandWords>& commands, absl::string_view before,
                        absl::string_view after, absl::string_view parent = "") {
  std::string cases;
  for (const CommandWords& command : commands) {
    absl::StrAppend(&cases, "    '", parent, command.command.text, "') ", before,
                    absl::StrJoin(WordsAfter(command), " "), after, " ;;\n");
  }
  return cases;
}

// Returns the case clauses of all nested commands.
std::string NestedCaseClauses(const std::vector<CommandWords>& commands, absl::string_view before,
                              absl::string_view after) {
  std::string cases;
  for (const CommandWords& command : commands) {
    absl::StrAppend(&cases, CaseClauses(command.commands, before, after,
                                        absl::StrCat(command.command.text, " ")));
  }
  return cases;
}

constexpr absl::string_view kFishNotSeen = "; and not __fish_seen_subcommand_from ";

// Appends the arguments and flags of a command, to be offered when `condition` holds.
void AppendFish(const CommandWords& command, absl::string_view condition, std::string& script) {
  const std::string where = absl::StrCat("complete -c callboard -n '", condition, "' ");
  for (const std::string& argument : command.arguments) {
    absl::StrAppend(&script, where, "-f -a ", argument, "\n");
  }
  for (const Word& flag : command.flags) {
    absl::StrAppend(&script, where, "-l ", absl::StripPrefix(flag.text, "--"), " -d ",
                    ShellQuoted(flag.help), "\n");
  }
}

std::string BashCompletion(const std::vector<CommandWords>& commands) {
  return absl::StrCat(
      "# bash completion for callboard: source <(callboard completion bash)\n"
      "_callboard() {\n"
      "  local words='",
      absl::StrJoin(NamesOf(commands), " "),
      "'\n"
      "  if ((COMP_CWORD > 1)); then words=; fi\n"
      "  case ${COMP_WORDS[1]} in\n",
      CaseClauses(commands, "((COMP_CWORD > 1)) && words='", "'"),
      "  esac\n"
      "  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n",
      NestedCaseClauses(commands, "((COMP_CWORD > 2)) && words='", "'"),
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -o bashdefault -o default -F _callboard callboard\n");
}

std::string ZshCompletion(const std::vector<CommandWords>& commands) {
  std::string described;
  for (const CommandWords& command : commands) {
    absl::StrAppend(&described, "    ",
                    ShellQuoted(absl::StrCat(command.command.text, ":", command.command.help)),
                    "\n");
  }
  return absl::StrCat(
      "#compdef callboard\n"
      "# zsh completion for callboard: source <(callboard completion zsh)\n"
      "_callboard() {\n"
      "  local -a commands follow\n"
      "  commands=(\n",
      described,
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n",
      CaseClauses(commands, "follow=(", ")"),
      "  esac\n"
      "  case \"$words[2] $words[3]\" in\n",
      NestedCaseClauses(commands, "((CURRENT > 3)) && follow=(", ")"),
      "  esac\n"
      "  compadd -- $follow\n"
      "  _files\n"
      "}\n"
      "if [[ $funcstack[1] == _callboard ]]; then _callboard; else compdef _callboard callboard; "
      "fi\n");
}

std::string FishCompletion(const std::vector<CommandWords>& commands) {
  std::string script =
      "# fish completion for callboard: callboard completion fish | source\n"
      "complete -c callboard -e\n";
  for (const CommandWords& command : commands) {
    absl::StrAppend(&script, "complete -c callboard -n __fish_use_subcommand -f -a ",
                    command.command.text, " -d ", ShellQuoted(command.command.help), "\n");
    const std::string seen = absl::StrCat("__fish_seen_subcommand_from ", command.command.text);
    const std::string nested = absl::StrJoin(NamesOf(command.commands), " ");
    AppendFish(command, nested.empty() ? seen : absl::StrCat(seen, kFishNotSeen, nested), script);
    for (const CommandWords& child : command.commands) {
      absl::StrAppend(&script, "complete -c callboard -n '", seen, kFishNotSeen, nested, "' -f -a ",
                      child.command.text, " -d ", ShellQuoted(child.command.help), "\n");
      AppendFish(child,
                 absl::StrCat(seen, "; and __fish_seen_subcommand_from ", child.command.text),
                 script);
    }
  }
  return script;
}

// ---- Parsing ------------------------------------------------------------------------------------

// Runs a command and returns the text to print.
using Action = std::function<absl::StatusOr<std::string>(const CliConfig&)>;

// Shells with a completion script.
const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

constexpr char kFooter[] = "Flags of all commands: callboard --help";

// Returns the result of a command that has written its output itself.
absl::StatusOr<std::string> WithoutText(const absl::Status& status) {
  if (!status.ok()) return status;
  return "";
}

// A validator of CLI11: returns an error text, or an empty string if `text` is valid.
std::string CheckQueueId(const std::string& text) { return QueueIdError(text); }

// Returns the name as it is typed after the program's name: `db verify`. For the program itself,
// returns its own name.
std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  const bool is_nested = parent != nullptr && parent->get_parent() != nullptr;
  return is_nested ? absl::StrCat(parent->get_name(), " ", command.get_name()) : command.get_name();
}

// Formats help texts with examples before the flags.
class ExamplesFirst : public CLI::Formatter {
 public:
  void Add(const std::string& name, const std::vector<std::string>& examples) {
    examples_[name] = examples;
  }

  std::string make_description(const CLI::App* command) const override {
    const std::string summary = CLI::Formatter::make_description(command);
    const auto found = examples_.find(FullName(*command));
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
    formatter_->Add("callboard", {"callboard dev", "callboard queue \"echo hello\"",
                                  "callboard queue-status", "callboard queue-status -o json",
                                  "callboard watch", "callboard agents", "callboard jobs",
                                  "callboard db verify", "source <(callboard completion bash)"});
    app_.fallthrough();
    app_.require_subcommand(0, 1);
    // Run() rejects unknown names and suggests the nearest known one.
    app_.allow_extras();
    app_.set_version_flag("--version", VersionText());
    AddSettings();
    // Declared for the help text only: RunDev() parses its own settings and runs it.
    AddCommand("dev", "Run a director, a scheduler and two agents in this process.",
               {"callboard dev"}, nullptr);
    AddTasks();
    AddStreams();
    AddJobs();
    AddDb();
    AddCompletion();
    AddCommand("version", "Show the version.", {"callboard version -o json"},
               [](const CliConfig& config) -> absl::StatusOr<std::string> {
                 if (config.output() != CliConfig::OUTPUT_JSON) return VersionText() + "\n";
                 return absl::StrCat("{\"version\":\"", base::kVersion, "\"}\n");
               });
  }

  int Run(const std::vector<std::string>& arguments) {
    try {
      // CLI11 expects the arguments in reverse order.
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
    db_.has_data_dir = loaded->origins.at("data_dir") == "flag";
    if (print_config_) {
      std::fputs(config::PrintedConfig(config, loaded->origins).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    }
    if (app_.got_subcommand("dev")) {
      return FailUsage("put flags after `dev`: callboard dev --data_dir=…");
    }
    if (!action_) {
      // If a command group such as `db` was given, CLI11 prints the help of that group.
      std::fputs(app_.help().c_str(), stderr);
      return static_cast<int>(ExitCode::kUsage);
    }
    return Print(action_(config));
  }

 private:
  static std::string VersionText() { return absl::StrCat("callboard ", base::kVersion); }

  static int FailUsage(absl::string_view message) {
    std::fprintf(stderr, "Error: %s\n", base::EscapedLines(message).c_str());
    return static_cast<int>(ExitCode::kUsage);
  }

  static int Print(const absl::StatusOr<std::string>& answer) {
    absl::Status status = answer.status();
    // Texts of servers and stores are untrusted. Commands escape values; this escapes the rest.
    if (answer.ok()) std::fputs(base::EscapedLines(*answer).c_str(), stdout);
    // Also detects failed writes of the command itself.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      status.Update(absl::UnavailableError("cannot write to standard output"));
    }
    if (!status.ok()) {
      std::fprintf(stderr, "Error: %s\n", base::EscapedLines(status.message()).c_str());
    }
    return static_cast<int>(ExitCodeOf(status));
  }

  // Adds every setting as a flag of every command. libs/config decides which value wins.
  void AddSettings() {
    for (const config::FlagText& setting : config::ListFlags(*CliConfig::descriptor())) {
      app_.add_option_function<std::string>(
              setting.flag == "--output" ? "-o,--output" : setting.flag,
              [this, flag = setting.flag](const std::string& value) {
                setting_flags_.push_back(absl::StrCat(flag, "=", value));
              },
              setting.help)
          ->type_name(setting.allowed_values)
          ->take_last()
          ->default_str(setting.default_text);
    }
    app_.add_flag("--print_config", print_config_,
                  "Show every setting and where its value comes from.");
  }

  CLI::App& AddCommand(const std::string& name, const std::string& summary,
                       const std::vector<std::string>& examples, const Action& action) {
    return AddCommandTo(app_, name, summary, examples, action);
  }

  CLI::App& AddCommandTo(CLI::App& parent, const std::string& name, const std::string& summary,
                         const std::vector<std::string>& examples, const Action& action) {
    CLI::App& command = *parent.add_subcommand(name, summary);
    command.footer(kFooter);
    formatter_->Add(FullName(command), examples);
    command.callback([this, action] {
      if (action) action_ = action;
    });
    return command;
  }

  using TaskCommand = absl::StatusOr<std::string> (*)(const CliConfig&, const TaskArguments&);

  CLI::App& AddTaskCommand(const std::string& name, const std::string& summary,
                           const std::vector<std::string>& examples, TaskCommand run) {
    return AddCommand(name, summary, examples,
                      [this, run](const CliConfig& config) { return run(config, task_); });
  }

  void AddTasks() {
    CLI::App& queue = AddTaskCommand(
        "queue", "Submit a task.",
        {"callboard queue \"fix the build\"",
         "callboard queue --model=sonnet --timeout_seconds=1800 \"write tests\" -o json"},
        SubmitTask);
    queue.add_option("prompt", task_.prompt, "What to do.")->required();
    queue.add_option("--model", task_.model, "The model to use.");
    queue.add_option("--timeout_seconds", task_.timeout_seconds, "Longest time that it may run.");
    queue.add_option("--session_id", task_.session_id,
                     "Session: it runs after the session's last task, on the same agent.");
    queue.add_option("--request_id", task_.request_id, "Idempotency key; generated if omitted.");
    queue.add_option("--lane", task_.lane, "Lane of the agents in which it runs.");
    queue.add_option("--policy", task_.policy,
                     "When the queue is full: reject, block, drop-oldest or drop-latest.");
    queue.add_option("--max_attempts", task_.max_attempts, "Attempts before it fails.");
    queue
        .add_option("--retry_on", task_.retry_on,
                    "Failures of a run that are retried: exit:7, exit:*, signal:SIGSEGV, timeout.")
        ->delimiter(',')
        ->allow_extra_args(false);
    CLI::App& status = AddCommand(
        "queue-status", "Show the state of the queue, or of one task with all its events.",
        {"callboard queue-status", "callboard queue-status queue-01hzy0m7c4t9q3v8k2n6b5r1xd",
         "callboard queue-status --director.address=host:7070"},
        [this](const CliConfig& config) {
          return task_.queue_id.empty() ? ShowQueueStatus(config)
                                        : ShowTask(config, task_.queue_id);
        });
    status.add_option("queue_id", task_.queue_id, "The task; default: the whole queue.")
        ->check(CheckQueueId);
    CLI::App& cancel =
        AddTaskCommand("queue-cancel", "Cancel a pending or running task.",
                       {"callboard queue-cancel queue-01hzy0m7c4t9q3v8k2n6b5r1xd"}, CancelTask);
    cancel.add_option("--why", task_.why, "Reason, recorded with the task.");
    CLI::App& explain =
        AddTaskCommand("explain", "Explain why a task has not started.",
                       {"callboard explain queue-01hzy0m7c4t9q3v8k2n6b5r1xd"}, ExplainTask);
    for (CLI::App* command : {&cancel, &explain}) {
      command->add_option("queue_id", task_.queue_id, "The task.")->required()->check(CheckQueueId);
    }
    AddCommand("agents", "Show the agents, their states and their lanes.",
               {"callboard agents", "callboard agents -o json"}, ListAgents);
  }

  void AddStreams() {
    CLI::App& watch = AddCommand(
        "watch", "Show tasks and their changes as they happen.",
        {"callboard watch", "callboard watch queue-01hzy0m7c4t9q3v8k2n6b5r1xd && echo it completed",
         "callboard watch -o json | jq .event.kind"},
        [this](const CliConfig& config) { return WithoutText(WatchTasks(config, watched_)); });
    watch.add_option("queue_id", watched_, "The tasks; default: all tasks.")->check(CheckQueueId);
    watch.footer(absl::StrCat(
        "On a terminal it draws the queue and its tasks in place; otherwise it writes a line for\n"
        "each change: time, task, state after the change, agent, dispatch (for `logs "
        "--dispatch`),\n"
        "reason. With -o json it writes one JSON document per line for each change.\n"
        "If the director stops, it waits until the director is back, and continues.\n"
        "With tasks it ends when the last of them has ended: 0 when all completed, 1 when one\n"
        "failed, timed out or was cancelled. Without tasks it continues until Ctrl-C (130).\n",
        kFooter));
    CLI::App& logs =
        AddCommand("logs", "Show the output of a task.",
                   {"callboard logs -f queue-01hzy0m7c4t9q3v8k2n6b5r1xd",
                    "callboard logs --dispatch=1 queue-01hzy0m7c4t9q3v8k2n6b5r1xd 2>errors.txt"},
                   [this](const CliConfig& config) {
                     return WithoutText(ShowLogs(config, logs_, stdout, stderr));
                   });
    logs.add_option("queue_id", logs_.queue_id, "The task.")->required()->check(CheckQueueId);
    logs.add_flag("-f,--follow", logs_.follow, "Continue until the task has ended.");
    logs.add_option("--dispatch", logs_.dispatch,
                    "Number of the dispatch to show; default: the last one.");
    logs.footer(absl::StrCat(
        "The task's standard output goes to standard output, its standard error to standard\n"
        "error. A line on standard error shows where output was dropped to keep the limits.\n"
        "With -o json it writes one JSON document per line for each chunk.\n"
        "With -f it also shows later dispatches, and continues when the director is back after a\n"
        "restart. The exit code is 0 however the task ends; use `watch` to learn that.\n",
        kFooter));
  }

  void AddJobs() {
    AddJobCommands(
        [this](const std::string& name, const std::string& summary,
               const std::vector<std::string>& examples, JobCommand run) -> CLI::App& {
          return AddCommand(name, summary, examples,
                            [this, run](const CliConfig& config) { return run(config, job_); });
        },
        job_);
  }

  using DbCommand = absl::Status (*)(const CliConfig&, const DbArguments&, std::FILE*);

  CLI::App& AddDbCommand(CLI::App& db, const std::string& name, const std::string& summary,
                         const std::vector<std::string>& examples, DbCommand run) {
    return AddCommandTo(db, name, summary, examples, [this, run](const CliConfig& config) {
      // New files of a store are for their owner only, whatever the mode of the folder.
      umask(S_IRWXG | S_IRWXO);
      return WithoutText(run(config, db_, stdout));
    });
  }

  void AddDb() {
    CLI::App& db =
        AddCommand("db", "Inspect, copy and restore a director's store.",
                   {"callboard db verify --data_dir=callboard-data", "callboard db checkpoint",
                    "callboard db restore --from=callboard-data/checkpoints/20260101T000000.000Z"},
                   nullptr);
    db.require_subcommand(0, 1);
    AddDbReaders(db);
    CLI::App& checkpoint =
        AddDbCommand(db, "checkpoint",
                     "Ask the director to copy its store; with --data_dir, copy an unused one.",
                     {"callboard db checkpoint --name=before-upgrade",
                      "callboard db checkpoint --data_dir=callboard-data"},
                     CreateCheckpoint);
    checkpoint.add_option("--name", db_.name,
                          "Name of the checkpoint's folder; default: the current time.");
    CLI::App& restore = AddDbCommand(
        db, "restore", "Restore a store from a checkpoint, or accept what a damaged one has lost.",
        {"callboard db restore --from=callboard-data/checkpoints/before-upgrade",
         "callboard db restore --accept_loss"},
        RestoreStore);
    restore.add_option("--from", db_.from, "Checkpoint that replaces the store.");
    restore.add_flag("--accept_loss", db_.accept_loss,
                     "Keep what can be read of the store, and list what is lost.");
  }

  void AddDbReaders(CLI::App& db) {
    AddDbCommand(db, "verify", "Read a whole store and list what is damaged.",
                 {"callboard db verify", "callboard db verify --data_dir=checkpoint -o json"},
                 VerifyStore);
    CLI::App& stats =
        AddDbCommand(db, "stats", "Show the contents of a store in numbers.",
                     {"callboard db stats", "callboard db stats -o json"}, ShowStoreStats);
    CLI::App& get = AddDbCommand(db, "get", "Show a task of a store with its events.",
                                 {"callboard db get queue-01hzy0m7c4t9q3v8k2n6b5r1xd",
                                  "callboard db get queue-01hzy0m7c4t9q3v8k2n6b5r1xd -o json"},
                                 ShowStoredTask);
    get.add_option("queue_id", db_.queue_id, "The task.")->required()->check(CheckQueueId);
    CLI::App& all = AddDbCommand(
        db, "export", "Write every task of a store, one JSON document per line.",
        {"callboard db export --to=tasks.jsonl", "callboard db export --skip_damaged | jq .task"},
        ExportTasks);
    all.add_option("--to", db_.to,
                   "File to write, completely or not at all; default: standard output.");
    for (CLI::App* command : {&stats, &get, &all}) {
      command->add_flag(
          "--skip_damaged", db_.skip_damaged,
          "Show what can be read of a damaged store; list the rest on standard error.");
    }
  }

  void AddCompletion() {
    CLI::App& command =
        AddCommand("completion", "Print a script that lets a shell complete commands and flags.",
                   {"source <(callboard completion bash)", "source <(callboard completion zsh)",
                    "callboard completion fish | source"},
                   [this](const CliConfig&) -> absl::StatusOr<std::string> {
                     if (shell_ == "bash") return BashCompletion(WordsAfter(app_));
                     return shell_ == "zsh" ? ZshCompletion(WordsAfter(app_))
                                            : FishCompletion(WordsAfter(app_));
                   });
    command.add_option("shell", shell_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember(kShells));
  }

  absl::StatusOr<config::LoadedSettings> Load(CliConfig& config) const {
    std::vector<const char*> arguments;
    for (const std::string& flag : setting_flags_) arguments.push_back(flag.c_str());
    return config::LoadSettings(
        {.arguments = arguments, .environment = config::ProcessEnvironment()}, config);
  }

  // Returns the words that a shell can complete after `parent`.
  std::vector<CommandWords> WordsAfter(const CLI::App& parent) const {
    std::vector<CommandWords> words;
    for (const CLI::App* app : parent.get_subcommands(nullptr)) {
      CommandWords command = {.command = {app->get_name(), app->get_description()},
                              .flags = {},
                              .arguments = {},
                              .commands = WordsAfter(*app)};
      if (FullName(*app) == "completion") command.arguments = kShells;
      if (FullName(*app) == "dev") {
        command.flags = FlagWords(*DevConfig::descriptor());
      } else {
        command.flags = FlagWords(*CliConfig::descriptor());
        AddOwnFlags(*app, command.flags);
      }
      words.push_back(std::move(command));
    }
    std::sort(words.begin(), words.end(), [](const CommandWords& a, const CommandWords& b) {
      return a.command.text < b.command.text;
    });
    return words;
  }

  // Adds the flags of `command` that are not settings.
  static void AddOwnFlags(const CLI::App& command, std::vector<Word>& flags) {
    for (const CLI::Option* option : command.get_options()) {
      const std::vector<std::string>& names = option->get_lnames();
      if (names.empty() || names.front() == "help") continue;
      flags.push_back({absl::StrCat("--", names.front()), option->get_description()});
    }
  }

  static std::vector<Word> FlagWords(const google::protobuf::Descriptor& settings) {
    std::vector<Word> words;
    for (const config::FlagText& setting : config::ListFlags(settings)) {
      words.push_back({setting.flag, setting.help});
    }
    words.push_back({"--print_config", "Show every setting and where it comes from."});
    words.push_back({"--help", "Show the help text."});
    return words;
  }

  // Returns the innermost command that was parsed; the program itself when none was.
  const CLI::App& FoundCommand() const {
    const CLI::App* found = &app_;
    while (!found->get_subcommands().empty()) found = found->get_subcommands().front();
    return *found;
  }

  std::string UnknownText(const std::string& word) const {
    const CLI::App& found = FoundCommand();
    const bool is_flag = absl::StartsWith(word, "-");
    const std::string name = word.substr(0, word.find('='));
    std::vector<Word> known;
    if (is_flag) {
      known = FlagWords(*CliConfig::descriptor());
      AddOwnFlags(found, known);
    } else {
      for (const CommandWords& command : WordsAfter(found)) known.push_back(command.command);
      if (known.empty()) return absl::StrCat("unexpected argument '", name, "'");
    }
    std::vector<std::string> names;
    for (const Word& each : known) names.push_back(each.text);
    const std::string nearest = base::Nearest(name, names);
    return absl::StrCat(
        "unknown ", is_flag ? "flag '" : "command '", name, "'; ",
        nearest.empty() ? "try callboard --help" : absl::StrCat("did you mean '", nearest, "'?"));
  }

  // A shared_ptr because CLI11 shares it.
  const std::shared_ptr<ExamplesFirst> formatter_ = std::make_shared<ExamplesFirst>();
  CLI::App app_;
  // Settings as flags, in the order given.
  std::vector<std::string> setting_flags_;
  bool print_config_ = false;
  std::string shell_;
  DbArguments db_;
  TaskArguments task_;
  std::vector<std::string> watched_;
  LogArguments logs_;
  JobArguments job_;
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
  // Ends with the exit code that shells show for Ctrl-C, for any parent process.
  signal(SIGINT, [](int) { _exit(static_cast<int>(ExitCode::kInterrupted)); });
  return CommandLine().Run(words);
}

}  // namespace callboard::cli
