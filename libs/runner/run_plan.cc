#include "libs/runner/run_plan.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/hash.h"
#include "libs/core/limits.h"
#include "libs/runner/launcher.h"

namespace callboard::runner {

// ---- CommandTemplate ----------------------------------------------------------------------------

namespace {

constexpr absl::string_view kPlaceholders[] = {"{model}", "{session_id}", "{project}"};

absl::string_view PlaceholderValue(absl::string_view placeholder, const core::RunSpec& spec) {
  if (placeholder == "{model}") return spec.model;
  if (placeholder == "{session_id}") return spec.session_id;
  return spec.project.name;
}

// Returns the field of a task with the value of a placeholder.
absl::string_view PlaceholderField(absl::string_view placeholder) {
  return placeholder == "{project}" ? "project.name"
                                    : placeholder.substr(1, placeholder.size() - 2);
}

// Returns the placeholder at the beginning of `text`: a word in braces. Returns an empty string
// when there is none; other braces are plain text.
absl::string_view ParsePlaceholder(absl::string_view text) {
  if (!absl::StartsWith(text, "{")) return "";
  const auto* end = std::find_if_not(text.begin() + 1, text.end(), [](char character) {
    return absl::ascii_islower(static_cast<unsigned char>(character)) || character == '_';
  });
  const auto length = static_cast<size_t>(end - text.begin());
  return length > 1 && end != text.end() && *end == '}' ? text.substr(0, length + 1) : "";
}

// Calls `on_text` and `on_placeholder` with the parts of an argument, in order.
template <class OnText, class OnPlaceholder>
void ForEachPart(absl::string_view argument, OnText on_text, OnPlaceholder on_placeholder) {
  while (!argument.empty()) {
    const absl::string_view placeholder = ParsePlaceholder(argument);
    if (placeholder.empty()) {
      on_text(argument.substr(0, 1));
      argument.remove_prefix(1);
    } else {
      on_placeholder(placeholder);
      argument.remove_prefix(placeholder.size());
    }
  }
}

}  // namespace

absl::StatusOr<CommandTemplate> CommandTemplate::Parse(std::vector<std::string> argv) {
  if (argv.empty() || argv.front().empty()) {
    return absl::InvalidArgumentError(
        "runner.argv is empty; it has to name the program that runs tasks");
  }
  std::string unknown;
  bool program_has_placeholder = false;
  for (const std::string& argument : argv) {
    if (absl::StrContains(argument, '\0')) {
      return absl::InvalidArgumentError("runner.argv contains a NUL byte");
    }
    ForEachPart(
        argument, [](absl::string_view) {},
        [&](absl::string_view placeholder) {
          if (std::find(std::begin(kPlaceholders), std::end(kPlaceholders), placeholder) ==
              std::end(kPlaceholders)) {
            unknown = std::string(placeholder);
          }
          if (&argument == &argv.front()) program_has_placeholder = true;
        });
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("runner.argv has the unknown placeholder ",
                                                   unknown,
                                                   "; use {model}, {session_id} or {project}"));
  }
  if (program_has_placeholder) {
    return absl::InvalidArgumentError("runner.argv: a task cannot choose the program");
  }
  return CommandTemplate(std::move(argv));
}

absl::Status CommandTemplate::Check(const core::RunSpec& spec) const {
  absl::Status status;
  for (const std::string& argument : argv_) {
    bool at_start = true;
    ForEachPart(
        argument, [&at_start](absl::string_view) { at_start = false; },
        [&](absl::string_view placeholder) {
          const absl::string_view value = PlaceholderValue(placeholder, spec);
          if (absl::StrContains(value, '\0')) {
            status = base::InvalidField(PlaceholderField(placeholder),
                                        absl::StrCat(placeholder, " contains a NUL byte"));
          } else if (at_start && absl::StartsWith(value, "-")) {
            status = base::InvalidField(
                PlaceholderField(placeholder),
                absl::StrCat(placeholder,
                             " begins with '-': the agent's command would take it for one of "
                             "its options"));
          }
          if (!value.empty()) at_start = false;
        });
  }
  return status;
}

std::vector<std::string> CommandTemplate::Fill(const core::RunSpec& spec) const {
  std::vector<std::string> filled;
  for (const std::string& argument : argv_) {
    std::string& text = filled.emplace_back();
    ForEachPart(
        argument, [&text](absl::string_view part) { absl::StrAppend(&text, part); },
        [&](absl::string_view placeholder) {
          absl::StrAppend(&text, PlaceholderValue(placeholder, spec));
        });
  }
  return filled;
}

// ---- Encoded messages ---------------------------------------------------------------------------

std::string EncodePlan(const RunPlan& plan) {
  FieldWriter writer;
  writer.WriteTexts(plan.argv);
  writer.WriteTexts(plan.environment);
  writer.WriteText(plan.folders.run);
  writer.WriteText(plan.folders.work);
  writer.WriteNumber(plan.folders.keeps_work ? 1 : 0);
  writer.WriteText(plan.folders.project);
  writer.WriteText(plan.folders.artifacts);
  writer.WriteText(plan.prompt);
  writer.WriteText(plan.payload);
  writer.WriteNumber(plan.prompt_is_input ? 1 : 0);
  writer.WriteDuration(plan.timeout);
  writer.WriteDuration(plan.kill_grace);
  writer.WriteDuration(plan.fence_at);
  return writer.bytes();
}

std::optional<RunPlan> DecodePlan(absl::string_view bytes) {
  FieldReader reader(bytes);
  RunPlan plan;
  plan.argv = reader.ReadTexts();
  plan.environment = reader.ReadTexts();
  plan.folders.run = reader.ReadText();
  plan.folders.work = reader.ReadText();
  plan.folders.keeps_work = reader.ReadNumber() != 0;
  plan.folders.project = reader.ReadText();
  plan.folders.artifacts = reader.ReadText();
  plan.prompt = reader.ReadText();
  plan.payload = reader.ReadText();
  plan.prompt_is_input = reader.ReadNumber() != 0;
  plan.timeout = reader.ReadDuration();
  plan.kill_grace = reader.ReadDuration();
  plan.fence_at = reader.ReadDuration();
  return reader.complete() ? std::optional<RunPlan>(std::move(plan)) : std::nullopt;
}

std::string EncodeInstruction(const Instruction& instruction) {
  FieldWriter writer;
  writer.WriteNumber(static_cast<int64_t>(instruction.kind));
  writer.WriteDuration(instruction.fence_at);
  return writer.bytes();
}

std::optional<Instruction> DecodeInstruction(absl::string_view bytes) {
  FieldReader reader(bytes);
  Instruction instruction;
  instruction.kind = static_cast<Instruction::Kind>(reader.ReadNumber());
  instruction.fence_at = reader.ReadDuration();
  return reader.complete() ? std::optional<Instruction>(instruction) : std::nullopt;
}

Report NotStartedReport(const absl::Status& why) {
  return {
      .result = {.end = core::RunResult::End::kNotStarted,
                 .error = base::SanitizeText(std::string(why.message()), core::kErrorBytesMax)}};
}

std::string EncodeReport(const Report& report) {
  FieldWriter writer;
  writer.WriteNumber(static_cast<int64_t>(report.result.end));
  writer.WriteNumber(report.result.exit_code.has_value() ? 1 : 0);
  writer.WriteNumber(report.result.exit_code.value_or(0));
  writer.WriteText(report.result.signal);
  writer.WriteText(report.result.result);
  writer.WriteNumber(report.result.result_truncated ? 1 : 0);
  writer.WriteText(report.result.error);
  writer.WriteNumber(report.has_result_file ? 1 : 0);
  return writer.bytes();
}

std::optional<Report> DecodeReport(absl::string_view bytes) {
  FieldReader reader(bytes);
  Report report;
  report.result.end = static_cast<core::RunResult::End>(reader.ReadNumber());
  const bool has_exit_code = reader.ReadNumber() != 0;
  const int64_t exit_code = reader.ReadNumber();
  if (has_exit_code) report.result.exit_code = static_cast<int32_t>(exit_code);
  report.result.signal = reader.ReadText();
  report.result.result = reader.ReadText();
  report.result.result_truncated = reader.ReadNumber() != 0;
  report.result.error = reader.ReadText();
  report.has_result_file = reader.ReadNumber() != 0;
  return reader.complete() ? std::optional<Report>(std::move(report)) : std::nullopt;
}

// ---- Environment --------------------------------------------------------------------------------

namespace {

constexpr absl::string_view kFenceTokenName = "CALLBOARD_FENCE";

std::string FenceTokenText(const core::FenceToken& token) {
  return absl::StrCat(core::ToString(token.queue_id), "/", token.dispatch.value(), "/",
                      token.director_epoch);
}

}  // namespace

Environment AllowedEnvironment(const Environment& environment,
                               const std::vector<std::string>& names) {
  Environment allowed;
  for (const std::string& name : names) {
    if (const auto found = environment.find(name); found != environment.end()) {
      allowed.insert(*found);
    }
  }
  return allowed;
}

std::string FenceTokenVariable(const core::FenceToken& token) {
  return absl::StrCat(kFenceTokenName, "=", FenceTokenText(token));
}

absl::StatusOr<std::string> FindProgram(const std::string& name,
                                        const std::vector<std::string>& environment) {
  if (absl::StrContains(name, '/')) {
    std::error_code error;
    if (access(name.c_str(), X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat("cannot run ", name, ": ", strerror(errno)));
    }
    if (std::filesystem::is_directory(name, error)) {
      return absl::NotFoundError(absl::StrCat("cannot run ", name, ": it is a folder"));
    }
    return name;
  }
  for (absl::string_view line : environment) {
    if (!absl::ConsumePrefix(&line, "PATH=")) continue;
    for (const absl::string_view folder : absl::StrSplit(line, ':')) {
      // Skip relative folders, because the task has another working directory.
      if (!absl::StartsWith(folder, "/")) continue;
      std::string program = absl::StrCat(folder, "/", name);
      if (access(program.c_str(), X_OK) == 0) return program;
    }
    return absl::NotFoundError(absl::StrCat("cannot run ", name, ": it is not in PATH, ", line));
  }
  return absl::NotFoundError(
      absl::StrCat("cannot run ", name, ": there is no PATH; allow it in runner.env_allow"));
}

absl::Status CheckEnvironment(const core::RunSpec& spec) {
  for (const auto& [name, value] : spec.env) {
    if (absl::StartsWith(name, "LD_") || name == "PATH" || name == "IFS") {
      return base::InvalidField(
          "env", absl::StrCat("env sets ", name,
                              ", which could change the command of the agent; remove it"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> TaskEnvironment(const ports::RunRequest& request,
                                         const RunFolders& folders, const Environment& allowed) {
  const core::RunSpec& spec = *request.spec;
  Environment all = allowed;
  for (const auto& [name, value] : spec.env) all[name] = value;
  all["CALLBOARD_TASK_ID"] = request.task_id;
  all["CALLBOARD_QUEUE_ID"] = core::ToString(request.token.queue_id);
  all[std::string(kFenceTokenName)] = FenceTokenText(request.token);
  all["CALLBOARD_PROMPT_FILE"] = folders.prompt_file();
  if (!spec.payload.empty()) all["CALLBOARD_PAYLOAD_FILE"] = folders.payload_file();
  all["CALLBOARD_RESULT_FILE"] = folders.result_file();
  all["CALLBOARD_ARTIFACTS"] = folders.new_artifacts();
  if (!spec.model.empty()) all["CALLBOARD_MODEL"] = spec.model;
  if (!spec.session_id.empty()) all["CALLBOARD_SESSION_ID"] = spec.session_id;
  if (!spec.project.name.empty()) all["CALLBOARD_PROJECT"] = spec.project.name;
  if (!spec.project.path.empty()) all["CALLBOARD_PROJECT_PATH"] = spec.project.path;
  if (spec.thinking.has_value()) all["CALLBOARD_THINKING"] = *spec.thinking ? "true" : "false";
  if (request.trace != core::SpanContext()) {
    all["TRACEPARENT"] = core::FormatTraceparent(request.trace);
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(absl::StrCat(name, "=", value));
  return lines;
}

// ---- RunPlanner ---------------------------------------------------------------------------------

namespace {

using Kind = SubprocessRunnerOptions::Kind;

// Callers choose session ids, so an id may contain any character. Its hash is a safe file name.
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
        "runner.kind: shell runs every prompt as a script, and is not allowed; set "
        "runner.allow_shell: true, or use runner.kind: exec with a command in runner.argv");
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

absl::Status RunPlanner::Check(const core::RunSpec& spec) const {
  if (!spec.project.path.empty() &&
      (!absl::StartsWith(spec.project.path, "/") || absl::StrContains(spec.project.path, '\0'))) {
    return base::InvalidField("project.path", "project.path must begin with '/'");
  }
  // Check the task first: with an invalid task, no other agent should be tried.
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
  const absl::Status found = FindProgram(command_->Fill({}).front(), path).status();
  if (found.ok()) return absl::OkStatus();
  return base::WithReason(absl::UnimplementedError(found.message()), "RUNNER_UNAVAILABLE");
}

absl::Status RunPlanner::CheckSpace(const core::RunSpec& spec) const {
  struct statvfs disk = {};
  // If this fails, creating the folder of the run reports the error.
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

absl::StatusOr<RunPlan> RunPlanner::Plan(const ports::RunRequest& request) const {
  RETURN_IF_ERROR(Check(*request.spec));
  const core::RunSpec& spec = *request.spec;
  RunPlan plan = {.folders = MakeFolders(request),
                  .prompt = spec.prompt,
                  .payload = spec.payload,
                  .prompt_is_input = options_.kind == Kind::kExec,
                  .timeout = spec.timeout > absl::ZeroDuration() ? spec.timeout : options_.timeout,
                  .kill_grace = request.kill_grace,
                  .fence_at = request.fence_at};
  plan.argv = command_.has_value()
                  ? command_->Fill(spec)
                  : std::vector<std::string>{"/bin/sh", plan.folders.prompt_file()};
  plan.environment = TaskEnvironment(request, plan.folders, allowed_);
  return plan;
}

RunFolders RunPlanner::MakeFolders(const ports::RunRequest& request) const {
  const core::RunSpec& spec = *request.spec;
  // The director makes task ids, and they are never paths.
  CHECK(!absl::StrContains(request.task_id, '/') && !absl::StartsWith(request.task_id, "."));
  const bool has_session = !spec.session_id.empty();
  return {.run = options_.data_dir / "runs" / request.task_id,
          .work = has_session ? options_.data_dir / "sessions" / SessionFolderName(spec.session_id)
                              : options_.data_dir / "work" / request.task_id,
          .keeps_work = has_session,
          .project = spec.project.path,
          .artifacts = options_.data_dir / "artifacts" / request.task_id};
}

}  // namespace callboard::runner
