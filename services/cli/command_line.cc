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
#include "callboard/config/v1/cli.pb.h"
#include "libs/base/nearest.h"
#include "libs/base/text.h"
#include "libs/base/version.h"
#include "libs/config/settings.h"
#include "libs/config/settings_text.h"
#include "services/cli/answer_text.h"
#include "services/cli/completion.h"
#include "services/cli/db_folder.h"
#include "services/cli/db_report.h"
#include "services/cli/db_restore.h"
#include "services/cli/db_tasks.h"
#include "services/cli/dev.h"
#include "services/cli/exit_code.h"
#include "services/cli/job_flags.h"
#include "services/cli/logs.h"
#include "services/cli/queue_status.h"
#include "services/cli/show_task.h"
#include "services/cli/task_commands.h"
#include "services/cli/watch.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using config::v1::DevConfig;

// What a command prints when it succeeds.
using Action = std::function<absl::StatusOr<std::string>(const CliConfig&)>;

// Those that a completion script can be had for.
const std::vector<std::string> kShells = {"bash", "zsh", "fish"};

constexpr char kFooter[] = "Flags of all commands: callboard --help";

// Of a command that has written what it has to say.
absl::StatusOr<std::string> Said(const absl::Status& status) {
  if (!status.ok()) return status;
  return "";
}

// As CLI11 wants it.
std::string IsQueueId(const std::string& text) { return QueueIdProblem(text); }

// As it is typed after the program's: `db verify`. Of the program, its own.
std::string FullName(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  const bool is_nested = parent != nullptr && parent->get_parent() != nullptr;
  return is_nested ? absl::StrCat(parent->get_name(), " ", command.get_name()) : command.get_name();
}

// Help texts with examples first.
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
    // Refused below, with the nearest name.
    app_.allow_extras();
    app_.set_version_flag("--version", VersionText());
    AddSettings();
    // Takes its own settings, which RunDev() reads; here for the help text.
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
    db_.has_data_dir = loaded->origins.at("data_dir") == "flag";
    if (print_config_) {
      std::fputs(config::PrintedConfig(config, loaded->origins).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    }
    if (app_.got_subcommand("dev")) {
      return FailUsage("the flags of dev come after it: callboard dev --data_dir=…");
    }
    if (!action_) {
      // Of the command that needs another one after it, if there is one.
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
    // What servers and stores hold comes from others. Commands escape values; this is for the rest.
    if (answer.ok()) std::fputs(base::EscapedLines(*answer).c_str(), stdout);
    // Also of what the command wrote itself.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      status.Update(absl::UnavailableError("cannot write to standard output"));
    }
    if (!status.ok()) {
      std::fprintf(stderr, "Error: %s\n", base::EscapedLines(status.message()).c_str());
    }
    return static_cast<int>(ExitCodeOf(status));
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
    queue.add_option("--timeout_seconds", task_.timeout_seconds, "How long it may run.");
    queue.add_option("--session_id", task_.session_id, "Run after, and where, its last task ran.");
    queue.add_option("--request_id", task_.request_id,
                     "Makes it safe to submit again; made up when not given.");
    queue.add_option("--lane", task_.lane, "Lane of the agents that may take it.");
    queue.add_option("--policy", task_.policy, "What to do when the queue is full.");
    queue.add_option("--max_attempts", task_.max_attempts, "Attempts before it fails.");
    queue
        .add_option("--retry_on", task_.retry_on,
                    "Ends of a run that are tried again: exit:7, exit:*, signal:SIGSEGV, timeout.")
        ->delimiter(',')
        ->allow_extra_args(false);
    CLI::App& status = AddCommand(
        "queue-status",
        "Show how full the queue is, or where a task stands and all that happened to it.",
        {"callboard queue-status", "callboard queue-status queue-01hzy0m7c4t9q3v8k2n6b5r1xd",
         "callboard queue-status --director.address=host:7070"},
        [this](const CliConfig& config) {
          return task_.queue_id.empty() ? ShowQueueStatus(config)
                                        : ShowTask(config, task_.queue_id);
        });
    status.add_option("queue_id", task_.queue_id, "The task; the whole queue when not given.")
        ->check(IsQueueId);
    CLI::App& cancel =
        AddTaskCommand("queue-cancel", "Cancel a task, wherever it is.",
                       {"callboard queue-cancel queue-01hzy0m7c4t9q3v8k2n6b5r1xd"}, CancelTask);
    cancel.add_option("--why", task_.why, "For those who look at it later.");
    CLI::App& explain =
        AddTaskCommand("explain", "Say why a task has not started.",
                       {"callboard explain queue-01hzy0m7c4t9q3v8k2n6b5r1xd"}, ExplainTask);
    for (CLI::App* command : {&cancel, &explain}) {
      command->add_option("queue_id", task_.queue_id, "The task.")->required()->check(IsQueueId);
    }
    AddCommand("agents", "Show the agents and what they do.",
               {"callboard agents", "callboard agents -o json"}, ListAgents);
  }

  void AddStreams() {
    CLI::App& watch = AddCommand(
        "watch", "Show tasks and what happens to them, as it happens.",
        {"callboard watch", "callboard watch queue-01hzy0m7c4t9q3v8k2n6b5r1xd && echo it completed",
         "callboard watch -o json | jq .event.kind"},
        [this](const CliConfig& config) { return Said(WatchTasks(config, watched_)); });
    watch.add_option("queue_id", watched_, "The tasks; all when not given.")->check(IsQueueId);
    watch.footer(absl::StrCat(
        "On a terminal it draws the queue and its tasks in place; else it writes a line for each\n"
        "change: time, task, state after it, agent, dispatch (as `logs --dispatch` takes it), "
        "why.\n"
        "As it is a stream, -o json writes one JSON document for each change, on its own line.\n"
        "It outlives its director: it waits until that is back, and goes on.\n"
        "With tasks it ends with the last of them: 0 when all completed, 1 when one failed, timed\n"
        "out or was cancelled. Without, it goes on until Ctrl-C (130).\n",
        kFooter));
    CLI::App& logs = AddCommand(
        "logs", "Show what a task wrote.",
        {"callboard logs -f queue-01hzy0m7c4t9q3v8k2n6b5r1xd",
         "callboard logs --dispatch=1 queue-01hzy0m7c4t9q3v8k2n6b5r1xd 2>errors.txt"},
        [this](const CliConfig& config) { return Said(ShowLogs(config, logs_, stdout, stderr)); });
    logs.add_option("queue_id", logs_.queue_id, "The task.")->required()->check(IsQueueId);
    logs.add_flag("-f,--follow", logs_.follow, "Go on until the task has ended.");
    logs.add_option("--dispatch", logs_.dispatch, "Of that dispatch; of the last one else.");
    logs.footer(absl::StrCat(
        "Its standard output goes to standard output, its standard error to standard error; "
        "output\n"
        "that was dropped to keep the limits is a line there. As it is a stream, -o json writes "
        "one\n"
        "JSON document for each chunk, on its own line. With -f it outlives its director, and "
        "shows\n"
        "later dispatches too. Ends with 0 however the task ends: ask `watch` for that.\n",
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
      // A store is for its own user, whatever the mode of its folder.
      umask(S_IRWXG | S_IRWXO);
      return Said(run(config, db_, stdout));
    });
  }

  void AddDb() {
    CLI::App& db =
        AddCommand("db", "Look at a director's store, copy it, and put a copy in its place.",
                   {"callboard db verify --data_dir=callboard-data", "callboard db checkpoint",
                    "callboard db restore --from=callboard-data/checkpoints/20260101T000000.000Z"},
                   nullptr);
    db.require_subcommand(0, 1);
    AddDbReaders(db);
    CLI::App& checkpoint = AddDbCommand(
        db, "checkpoint", "Let the director copy its store; with --data_dir, copy one without.",
        {"callboard db checkpoint --name=before-upgrade",
         "callboard db checkpoint --data_dir=callboard-data"},
        CreateCheckpoint);
    checkpoint.add_option("--name", db_.name, "Name of its folder; the time when not given.");
    CLI::App& restore = AddDbCommand(
        db, "restore", "Make a store that a director opens of a checkpoint, or of a damaged one.",
        {"callboard db restore --from=callboard-data/checkpoints/before-upgrade",
         "callboard db restore --accept_loss"},
        RestoreStore);
    restore.add_option("--from", db_.from, "Checkpoint to copy into the place of the store.");
    restore.add_flag("--accept_loss", db_.accept_loss,
                     "Go on with what can be read of the store, and say what is lost.");
  }

  void AddDbReaders(CLI::App& db) {
    AddDbCommand(db, "verify", "Read all of a store and say what is damaged.",
                 {"callboard db verify", "callboard db verify --data_dir=checkpoint -o json"},
                 VerifyStore);
    CLI::App& stats =
        AddDbCommand(db, "stats", "Show what a store holds.",
                     {"callboard db stats", "callboard db stats -o json"}, ShowStoreStats);
    CLI::App& get = AddDbCommand(db, "get", "Show a task of a store, and what happened to it.",
                                 {"callboard db get queue-01hzy0m7c4t9q3v8k2n6b5r1xd",
                                  "callboard db get queue-01hzy0m7c4t9q3v8k2n6b5r1xd -o json"},
                                 ShowStoredTask);
    get.add_option("queue_id", db_.queue_id, "The task.")->required()->check(IsQueueId);
    CLI::App& all = AddDbCommand(
        db, "export", "Write every task of a store, one JSON document per line.",
        {"callboard db export --to=tasks.jsonl", "callboard db export --skip_damaged | jq .task"},
        ExportTasks);
    all.add_option("--to", db_.to, "File to write to, whole or not at all; standard output else.");
    for (CLI::App* command : {&stats, &get, &all}) {
      command->add_flag(
          "--skip_damaged", db_.skip_damaged,
          "Show what can be read of a damaged store; say on standard error what not.");
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
    for (const std::string& flag : given_) arguments.push_back(flag.c_str());
    return config::LoadSettings(
        {.arguments = arguments, .environment = config::ProcessEnvironment()}, config);
  }

  // What a shell may complete after `parent`.
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

  // Those that are no settings.
  static void AddOwnFlags(const CLI::App& command, std::vector<Word>& flags) {
    for (const CLI::Option* option : command.get_options()) {
      const std::vector<std::string>& names = option->get_lnames();
      if (names.empty() || names.front() == "help") continue;
      flags.push_back({absl::StrCat("--", names.front()), option->get_description()});
    }
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

  // The command that was found, the last of them; the program itself when none was.
  const CLI::App& Found() const {
    const CLI::App* found = &app_;
    while (!found->get_subcommands().empty()) found = found->get_subcommands().front();
    return *found;
  }

  std::string UnknownText(const std::string& word) const {
    const CLI::App& found = Found();
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

  // Shared as CLI11 wants it.
  const std::shared_ptr<ExamplesFirst> formatter_ = std::make_shared<ExamplesFirst>();
  CLI::App app_;
  // Settings as flags, in the order given.
  std::vector<std::string> given_;
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
  // As a shell would show it, whoever the parent is.
  signal(SIGINT, [](int) { _exit(static_cast<int>(ExitCode::kInterrupted)); });
  return CommandLine().Run(words);
}

}  // namespace callboard::cli
