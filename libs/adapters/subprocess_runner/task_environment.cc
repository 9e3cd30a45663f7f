#include "libs/adapters/subprocess_runner/task_environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/error.h"

namespace callboard::adapters {
namespace {

constexpr absl::string_view kFence = "CALLBOARD_FENCE";

std::string FenceText(const core::FenceToken& token) {
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

std::string FenceVariable(const core::FenceToken& token) {
  return absl::StrCat(kFence, "=", FenceText(token));
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
      // Others depend on where one stands.
      if (!absl::StartsWith(folder, "/")) continue;
      std::string program = absl::StrCat(folder, "/", name);
      if (access(program.c_str(), X_OK) == 0) return program;
    }
    return absl::NotFoundError(absl::StrCat("cannot run ", name, ": it is not in PATH, ", line));
  }
  return absl::NotFoundError(
      absl::StrCat("cannot run ", name, ": there is no PATH; allow it in runner.env_allow"));
}

absl::Status CheckEnvironment(const core::TaskSpec& spec) {
  for (const auto& [name, value] : spec.env) {
    if (absl::StartsWith(name, "LD_") || name == "PATH" || name == "IFS") {
      return base::InvalidField(
          "env",
          absl::StrCat("env sets ", name, ", with which the agent's command would be another one"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> TaskEnvironment(const ports::RunOrder& order, const RunFolders& folders,
                                         const Environment& allowed) {
  const core::TaskSpec& spec = *order.spec;
  Environment all = allowed;
  for (const auto& [name, value] : spec.env) all[name] = value;
  all["CALLBOARD_TASK_ID"] = order.task_id;
  all["CALLBOARD_QUEUE_ID"] = core::ToString(order.token.queue_id);
  all[std::string(kFence)] = FenceText(order.token);
  all["CALLBOARD_PROMPT_FILE"] = folders.prompt_file();
  if (!spec.payload.empty()) all["CALLBOARD_PAYLOAD_FILE"] = folders.payload_file();
  all["CALLBOARD_RESULT_FILE"] = folders.result_file();
  all["CALLBOARD_ARTIFACTS"] = folders.new_artifacts();
  if (!spec.model.empty()) all["CALLBOARD_MODEL"] = spec.model;
  if (!spec.session_id.empty()) all["CALLBOARD_SESSION_ID"] = spec.session_id;
  if (spec.project.has_value()) {
    if (!spec.project->name.empty()) all["CALLBOARD_PROJECT"] = spec.project->name;
    if (!spec.project->path.empty()) all["CALLBOARD_PROJECT_PATH"] = spec.project->path;
  }
  if (spec.thinking.has_value()) all["CALLBOARD_THINKING"] = *spec.thinking ? "true" : "false";
  if (order.trace != core::SpanContext()) {
    all["TRACEPARENT"] = core::FormatTraceparent(order.trace);
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : all) lines.push_back(absl::StrCat(name, "=", value));
  return lines;
}

}  // namespace callboard::adapters
