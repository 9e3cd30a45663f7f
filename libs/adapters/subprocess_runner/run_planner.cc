#include "libs/adapters/subprocess_runner/run_planner.h"

#include <sys/statvfs.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
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
  if (options.kind == Kind::kShell && !options.allow_shell) {
    return absl::InvalidArgumentError(
        "runner.kind: shell runs whatever is submitted, and is not allowed; set "
        "runner.allow_shell: "
        "true, or runner.kind: exec with a command in runner.argv");
  }
  std::optional<CommandTemplate> command;
  if (options.kind == Kind::kExec) {
    std::vector<std::string> argv = options.argv;
    if (!argv.empty() && absl::StrContains(argv.front(), '/')) {
      argv.front() = std::filesystem::absolute(argv.front());
    }
    ASSIGN_OR_RETURN(command, CommandTemplate::Parse(std::move(argv)));
  }
  RunPlanner planner(std::move(options), std::move(command));
  if (const absl::Status checked = planner.CheckCommand(); !checked.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("runner.argv: ", checked.message()));
  }
  return planner;
}

absl::Status RunPlanner::Check(const core::TaskSpec& spec) const {
  if (spec.project.has_value() && !spec.project->path.empty() &&
      (!absl::StartsWith(spec.project->path, "/") || absl::StrContains(spec.project->path, '\0'))) {
    return base::InvalidField("project.path", "project.path has to begin with '/'");
  }
  // A task's own faults come first: no other agent would take it either.
  if (command_.has_value()) {
    RETURN_IF_ERROR(CheckEnvironment(spec));
    RETURN_IF_ERROR(command_->Check(spec));
  }
  RETURN_IF_ERROR(CheckCommand());
  return CheckSpace(spec);
}

absl::Status RunPlanner::CheckCommand() const {
  if (!command_.has_value()) return absl::OkStatus();
  std::vector<std::string> path;
  if (const auto found = allowed_.find("PATH"); found != allowed_.end()) {
    path.push_back(absl::StrCat("PATH=", found->second));
  }
  // The program is the same for every task.
  const absl::Status found = FindProgram(command_->Filled({}).front(), path).status();
  if (found.ok()) return absl::OkStatus();
  return base::WithReason(absl::UnimplementedError(found.message()), "RUNNER_UNAVAILABLE");
}

absl::Status RunPlanner::CheckSpace(const core::TaskSpec& spec) const {
  struct statvfs disk = {};
  // One that cannot be asked is told of when the run's folder cannot be made.
  if (statvfs(options_.data_dir.c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  const uint64_t needed = options_.free_bytes_min + spec.prompt.size() + spec.payload.size();
  const bool has_inodes = disk.f_files == 0 || disk.f_favail > 0;
  if (free_bytes >= needed && has_inodes) return absl::OkStatus();
  return base::WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "no space for a run in ", options_.data_dir.string(), " of this agent: ", free_bytes,
          " bytes free, ", needed, " needed", has_inodes ? "" : ", and no inode free")),
      "NO_SPACE", {{"free_bytes", absl::StrCat(free_bytes)}});
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
