#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_TASK_ENVIRONMENT_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_TASK_ENVIRONMENT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/adapters/subprocess_runner/run_plan.h"
#include "libs/core/task.h"
#include "libs/ports/task_runner.h"

namespace callboard::adapters {

using Environment = std::map<std::string, std::string>;

// The variables of `environment` that `names` allows.
Environment AllowedEnvironment(const Environment& environment,
                               const std::vector<std::string>& names);

// CALLBOARD_FENCE=queue_id/dispatch/epoch.
std::string FenceVariable(const core::FenceToken& token);

// The path of a program: `name` itself when it has a slash, else looked for in PATH of the
// environment, which is as name=value. NOT_FOUND when there is no such file that can be executed.
absl::StatusOr<std::string> FindProgram(const std::string& name,
                                        const std::vector<std::string>& environment);

// INVALID_ARGUMENT when a task sets what decides which code a fixed command is: LD_…, PATH, IFS.
absl::Status CheckEnvironment(const core::TaskSpec& spec);

// All that the processes of a run see, as name=value: what the agent allows, over it what the task
// asked for, and over both what Callboard says of the run:
//
//   CALLBOARD_TASK_ID, CALLBOARD_QUEUE_ID    names of the dispatch and of the task
//   CALLBOARD_FENCE                          queue_id/dispatch/epoch
//   CALLBOARD_PROMPT_FILE                    where the prompt is
//   CALLBOARD_PAYLOAD_FILE                   where the payload is, when there is one
//   CALLBOARD_RESULT_FILE                    where the result may be written to
//   CALLBOARD_ARTIFACTS                      folder for what is to be kept when the run succeeds
//   CALLBOARD_MODEL, CALLBOARD_SESSION_ID, CALLBOARD_PROJECT, CALLBOARD_PROJECT_PATH,
//   CALLBOARD_THINKING (true or false)       when the task says
//   TRACEPARENT                              when it is traced
std::vector<std::string> TaskEnvironment(const ports::RunOrder& order, const RunFolders& folders,
                                         const Environment& allowed);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_TASK_ENVIRONMENT_H_
