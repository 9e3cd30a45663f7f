// The plan of a run, how it is made from settings and task, and the messages of supervisors.

#ifndef CALLBOARD_LIBS_RUNNER_RUN_PLAN_H_
#define CALLBOARD_LIBS_RUNNER_RUN_PLAN_H_

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/ports/task_runner.h"

namespace callboard::runner {

// A fixed command with placeholders for values of a task: {model}, {session_id} and {project}, the
// name of the project. A placeholder without a value is replaced by nothing.
//
// A value never becomes two arguments, and never an option; see Check().
class CommandTemplate {
 public:
  // Returns INVALID_ARGUMENT when there is no program, when the program contains a placeholder, and
  // for an unknown {placeholder}.
  static absl::StatusOr<CommandTemplate> Parse(std::vector<std::string> argv);

  // Returns INVALID_ARGUMENT when a value would be taken for an option, because it starts an
  // argument and begins with '-', and when a value contains a NUL byte.
  absl::Status Check(const core::RunSpec& spec) const;

  // Returns the command with the values of the task. REQUIRES: Check(spec) is OK.
  std::vector<std::string> Fill(const core::RunSpec& spec) const;

 private:
  explicit CommandTemplate(std::vector<std::string> argv) : argv_(std::move(argv)) {}

  std::vector<std::string> argv_;
};

// The folders of a run. Paths are absolute.
struct RunFolders {
  // Holds prompt, payload, result and new artifacts. Removed when the run has ended.
  std::string run;
  // Working directory of the task. Kept after the run when it belongs to a session.
  std::string work;
  bool keeps_work = false;
  // Working directory to use instead of `work` when it exists; may be empty.
  std::string project;
  // Folder to which the artifacts of a successful run are moved.
  std::string artifacts;

  std::string prompt_file() const { return run + "/prompt"; }
  std::string payload_file() const { return run + "/payload"; }
  std::string result_file() const { return run + "/result.json"; }
  std::string new_artifacts() const { return run + "/artifacts"; }

  friend bool operator==(const RunFolders&, const RunFolders&) = default;
};

// Complete instructions for a supervisor, which has no other access to the agent's data.
struct RunPlan {
  // The command. A program without a slash is searched for in the PATH of `environment`. When argv
  // is empty, the supervisor runs nothing and only removes the files that a dead supervisor left.
  std::vector<std::string> argv = {};
  // Variables as name=value.
  std::vector<std::string> environment = {};
  RunFolders folders = {};
  std::string prompt = {};
  std::string payload = {};
  // Whether the prompt is also the standard input of the task, which is empty otherwise.
  bool prompt_is_input = false;
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Duration kill_grace = {};
  // Time of CLOCK_BOOTTIME.
  absl::Duration fence_at = absl::InfiniteDuration();

  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

std::string EncodePlan(const RunPlan& plan);
// This and the other decoders return null for bytes that the encoder cannot have written.
std::optional<RunPlan> DecodePlan(absl::string_view bytes);

// Sent to a supervisor during its run.
struct Instruction {
  enum class Kind { kStop, kKill, kMoveFence };

  Kind kind = Kind::kStop;
  // Used by kMoveFence only.
  absl::Duration fence_at = {};

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

std::string EncodeInstruction(const Instruction& instruction);
std::optional<Instruction> DecodeInstruction(absl::string_view bytes);

// Messages that a supervisor sends before its report, in this order.
//
// The supervisor is about to start the task; from now on the task may have run.
inline constexpr absl::string_view kTaskStarting = "begins";
// The task is running. The process id of the task follows.
inline constexpr absl::string_view kTaskStarted = "started ";
// All processes of the run are gone.
inline constexpr absl::string_view kProcessesGone = "gone";

// The last message of a supervisor, when no process or temporary file of its run is left.
// `result.result` is empty unless the run wrote a result file.
struct Report {
  core::RunResult result;
  bool has_result_file = false;

  friend bool operator==(const Report&, const Report&) = default;
};

// Returns the report of a run that could not be started.
Report NotStartedReport(const absl::Status& why);

std::string EncodeReport(const Report& report);
std::optional<Report> DecodeReport(absl::string_view bytes);

// ---- Environment and planner ----

using Environment = std::map<std::string, std::string>;

// Returns the variables of `environment` whose names are in `names`.
Environment AllowedEnvironment(const Environment& environment,
                               const std::vector<std::string>& names);

// Returns CALLBOARD_FENCE=queue_id/dispatch/epoch.
std::string FenceTokenVariable(const core::FenceToken& token);

// Returns the path of a program: `name` itself when it contains a slash, else the program of that
// name in the PATH of `environment`, whose entries are name=value. Returns NOT_FOUND when there is
// no executable file.
absl::StatusOr<std::string> FindProgram(const std::string& name,
                                        const std::vector<std::string>& environment);

// Returns INVALID_ARGUMENT when a task sets a variable that could change which code a fixed command
// runs: LD_…, PATH, IFS.
absl::Status CheckEnvironment(const core::RunSpec& spec);

// Returns the environment of the processes of a run, as name=value. Variables of the task override
// `allowed`, the variables of the agent. These variables of Callboard override both:
//
//   CALLBOARD_TASK_ID, CALLBOARD_QUEUE_ID    names of the dispatch and of the task
//   CALLBOARD_FENCE                          queue_id/dispatch/epoch
//   CALLBOARD_PROMPT_FILE                    path of the prompt
//   CALLBOARD_PAYLOAD_FILE                   path of the payload, when there is one
//   CALLBOARD_RESULT_FILE                    path to which the task may write its result
//   CALLBOARD_ARTIFACTS                      folder for files to keep when the run succeeds
//   CALLBOARD_MODEL, CALLBOARD_SESSION_ID, CALLBOARD_PROJECT, CALLBOARD_PROJECT_PATH,
//   CALLBOARD_THINKING (true or false)       when the task sets them
//   TRACEPARENT                              when the task is traced
std::vector<std::string> TaskEnvironment(const ports::RunRequest& request,
                                         const RunFolders& folders, const Environment& allowed);

struct SubprocessRunnerOptions {
  enum class Kind {
    // Runs `argv`, with the prompt as standard input.
    kExec,
    // Runs the prompt as a script of /bin/sh. Requires `allow_shell`.
    kShell,
  };

  Kind kind = Kind::kExec;
  // The command of kExec; see CommandTemplate. A relative path of the program is relative to the
  // working directory of the agent.
  std::vector<std::string> argv = {};
  bool allow_shell = false;
  // The agent's environment, and the names of the variables that are passed to tasks.
  Environment environment = {};
  std::vector<std::string> env_allow = {};
  // Holds the folders `runs`, `work`, `sessions` and `artifacts`; created when it is missing.
  std::filesystem::path data_dir;
  // Timeout of tasks that have none.
  absl::Duration timeout = absl::Minutes(30);
  // Free space in data_dir that a run requires, in addition to the size of its prompt and payload.
  uint64_t free_bytes_min = 16 * 1024 * 1024;
};

// Makes the plan of each run for its supervisor. Thread-safe.
class RunPlanner {
 public:
  // Returns INVALID_ARGUMENT when the command is not a valid CommandTemplate, when its program
  // cannot be executed, and for kShell without `allow_shell`. REQUIRES: data_dir is absolute.
  static absl::StatusOr<RunPlanner> Create(SubprocessRunnerOptions options);

  // Implements TaskRunner::Check().
  absl::Status Check(const core::RunSpec& spec) const;
  // Returns RESOURCE_EXHAUSTED when data_dir has no space for a run of `spec`.
  absl::Status CheckSpace(const core::RunSpec& spec) const;

  // Returns the error of Check() when the task does not pass it.
  absl::StatusOr<RunPlan> Plan(const ports::RunRequest& request) const;

 private:
  RunPlanner(SubprocessRunnerOptions options, std::optional<CommandTemplate> command)
      : options_(std::move(options)),
        command_(std::move(command)),
        allowed_(AllowedEnvironment(options_.environment, options_.env_allow)) {}

  RunFolders MakeFolders(const ports::RunRequest& request) const;
  // Returns UNIMPLEMENTED when the program cannot be executed, so that no run can start.
  absl::Status CheckCommand() const;

  SubprocessRunnerOptions options_;
  // Set for kExec only.
  std::optional<CommandTemplate> command_;
  Environment allowed_;
};

}  // namespace callboard::runner

#endif  // CALLBOARD_LIBS_RUNNER_RUN_PLAN_H_
