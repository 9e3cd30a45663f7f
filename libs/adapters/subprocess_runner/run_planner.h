#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_PLANNER_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_PLANNER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/adapters/subprocess_runner/command_template.h"
#include "libs/adapters/subprocess_runner/run_plan.h"
#include "libs/adapters/subprocess_runner/task_environment.h"
#include "libs/ports/task_runner.h"

namespace callboard::adapters {

// How tasks are run.
struct SubprocessRunnerOptions {
  enum class Kind {
    // `argv`, with the prompt as its input.
    kExec,
    // /bin/sh, with the prompt as its script; only with `allow_shell`.
    kShell,
  };

  Kind kind = Kind::kExec;
  // The command of kExec; see CommandTemplate. A relative path is taken from where the agent runs.
  std::vector<std::string> argv = {};
  bool allow_shell = false;
  // The agent's environment, and what of it tasks may see.
  Environment environment = {};
  std::vector<std::string> env_allow = {};
  // Holds the folders `runs`, `work`, `sessions` and `artifacts`; made when it is missing.
  std::filesystem::path data_dir;
  // Of tasks that do not say.
  absl::Duration timeout = absl::Minutes(30);
  // No run begins with less space than this, and what its prompt and payload take, in data_dir.
  uint64_t free_bytes_min = 16 * 1024 * 1024;
};

// Says for each run what its supervisor is to do. Thread-safe.
class RunPlanner {
 public:
  // INVALID_ARGUMENT when the command is no CommandTemplate or its program cannot be executed, or
  // for the shell where it is not allowed. REQUIRES: data_dir is absolute.
  static absl::StatusOr<RunPlanner> Create(SubprocessRunnerOptions options);

  // As TaskRunner::Check().
  absl::Status Check(const core::TaskSpec& spec) const;
  // RESOURCE_EXHAUSTED when there is no space in data_dir for a run of `spec`.
  absl::Status CheckSpace(const core::TaskSpec& spec) const;

  // An error of Check() when the task does not pass it.
  absl::StatusOr<RunPlan> Plan(const ports::RunOrder& order) const;

 private:
  RunPlanner(SubprocessRunnerOptions options, std::optional<CommandTemplate> command)
      : options_(std::move(options)),
        command_(std::move(command)),
        allowed_(AllowedEnvironment(options_.environment, options_.env_allow)) {}

  RunFolders FoldersOf(const ports::RunOrder& order) const;
  // UNIMPLEMENTED when this agent can begin no run.
  absl::Status CheckCommand() const;

  SubprocessRunnerOptions options_;
  // Of kExec only.
  std::optional<CommandTemplate> command_;
  Environment allowed_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_PLANNER_H_
