#include "libs/adapters/subprocess_runner/run_planner.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/core/stable_hash.h"

namespace callboard::adapters {
namespace {

using Kind = SubprocessRunnerOptions::Kind;

// Sessions are named by callers: anything may be in there.
std::string SessionFolderName(absl::string_view session_id) {
  core::StableHash hash;
  hash.Add(session_id);
  return absl::StrFormat("%016x%016x", hash.value(), hash.second_value());
}

}  // namespace

absl::StatusOr<RunPlanner> RunPlanner::Create(SubprocessRunnerOptions options) {
  CHECK(options.data_dir.is_absolute()) << options.data_dir;
  std::optional<CommandTemplate> command;
  if (options.kind == Kind::kExec) {
    std::vector<std::string> argv = options.argv;
    if (!argv.empty() && absl::StrContains(argv.front(), '/')) {
      argv.front() = std::filesystem::absolute(argv.front());
    }
    ASSIGN_OR_RETURN(command, CommandTemplate::Parse(std::move(argv)));
  }
  return RunPlanner(std::move(options), std::move(command));
}

absl::Status RunPlanner::Check(const core::TaskSpec& spec) const {
  if (spec.project.has_value() && !spec.project->path.empty() &&
      (!absl::StartsWith(spec.project->path, "/") || absl::StrContains(spec.project->path, '\0'))) {
    return absl::InvalidArgumentError("project.path has to begin with '/'");
  }
  if (options_.kind == Kind::kShell) {
    if (options_.allow_shell) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "this agent runs prompts as scripts, which is not allowed; set runner.allow_shell: true, "
        "or "
        "runner.kind: exec with a command in runner.argv");
  }
  RETURN_IF_ERROR(CheckEnvironment(spec));
  return command_->Check(spec);
}

absl::StatusOr<RunPlan> RunPlanner::Plan(const ports::RunOrder& order) const {
  RETURN_IF_ERROR(Check(*order.spec));
  const core::TaskSpec& spec = *order.spec;
  RunPlan plan = {.folders = FoldersOf(order),
                  .prompt = spec.prompt,
                  .payload = spec.payload,
                  .prompt_is_input = options_.kind == Kind::kExec,
                  .timeout = spec.timeout > absl::ZeroDuration() ? spec.timeout : options_.timeout,
                  .kill_grace = order.kill_grace,
                  .fence_at = order.fence_at};
  plan.argv = command_.has_value()
                  ? command_->Filled(spec)
                  : std::vector<std::string>{"/bin/sh", plan.folders.prompt_file()};
  plan.environment = TaskEnvironment(order, plan.folders, allowed_);
  return plan;
}

RunFolders RunPlanner::FoldersOf(const ports::RunOrder& order) const {
  const core::TaskSpec& spec = *order.spec;
  // No path can be made of what a director calls its dispatches.
  CHECK(!absl::StrContains(order.task_id, '/') && !absl::StartsWith(order.task_id, "."));
  const bool has_session = !spec.session_id.empty();
  return {.run = options_.data_dir / "runs" / order.task_id,
          .work = has_session ? options_.data_dir / "sessions" / SessionFolderName(spec.session_id)
                              : options_.data_dir / "work" / order.task_id,
          .keeps_work = has_session,
          .project = spec.project.has_value() ? spec.project->path : "",
          .artifacts = options_.data_dir / "artifacts" / order.task_id};
}

}  // namespace callboard::adapters
