#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_PLAN_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/record.h"

namespace callboard::adapters {

// Where a run has its files. Paths are absolute.
struct RunFolders {
  // Its own, for as long as it runs: prompt, payload, result and artifacts in the making.
  std::string run;
  // Where its processes begin, and whether that is kept: a session's is.
  std::string work;
  bool keeps_work = false;
  // Begin there instead, when it exists. Empty for no such folder.
  std::string project;
  // Where the artifacts of a run that succeeded are put.
  std::string artifacts;

  std::string prompt_file() const { return run + "/prompt"; }
  std::string payload_file() const { return run + "/payload"; }
  std::string result_file() const { return run + "/result.json"; }
  std::string new_artifacts() const { return run + "/artifacts"; }

  friend bool operator==(const RunFolders&, const RunFolders&) = default;
};

// What a supervisor is to do: all of it, so that it needs nothing of the agent's.
struct RunPlan {
  // The command, looked for in the PATH of its environment when it has no slash. Empty: nothing is
  // run, and what a supervisor that died left behind is removed.
  std::vector<std::string> argv = {};
  // As name=value.
  std::vector<std::string> environment = {};
  RunFolders folders = {};
  std::string prompt = {};
  std::string payload = {};
  // Whether the prompt is the standard input as well; else there is none.
  bool prompt_is_input = false;
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Duration kill_grace = {};
  // In CLOCK_BOOTTIME.
  absl::Duration fence_at = absl::InfiniteDuration();

  friend bool operator==(const RunPlan&, const RunPlan&) = default;
};

std::string EncodePlan(const RunPlan& plan);
// Nothing for what EncodePlan() does not write; so below.
std::optional<RunPlan> DecodePlan(absl::string_view bytes);

// What a supervisor is told while its run goes on.
struct Instruction {
  enum class Kind { kStop, kKill, kFence };

  Kind kind = Kind::kStop;
  // Of kFence only.
  absl::Duration fence_at = {};

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

std::string EncodeInstruction(const Instruction& instruction);
std::optional<Instruction> DecodeInstruction(absl::string_view bytes);

// Messages of a supervisor before its report. It is about to start the task, which may have run
// from then on; the task runs, the number of its process follows; no process of it is left.
inline constexpr absl::string_view kTaskBegins = "begins";
inline constexpr absl::string_view kTaskStarted = "started ";
inline constexpr absl::string_view kProcessesGone = "gone";

// What a supervisor says at the end, when nothing of its run is left. The result is empty unless
// the run wrote it to its file.
struct Report {
  core::RunResult result;
  bool has_result_file = false;

  friend bool operator==(const Report&, const Report&) = default;
};

// Nothing of the run could be begun.
Report NotStarted(const absl::Status& why);

std::string EncodeReport(const Report& report);
std::optional<Report> DecodeReport(absl::string_view bytes);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_RUN_PLAN_H_
