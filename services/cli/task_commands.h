// The commands about tasks, their logs, the queue and agents.

#ifndef CALLBOARD_SERVICES_CLI_TASK_COMMANDS_H_
#define CALLBOARD_SERVICES_CLI_TASK_COMMANDS_H_

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/ports/environment.h"

namespace callboard::cli {

// Returns the events of a task for people: a line for each event, the oldest first. Long reasons
// are truncated.
std::string TimelineTable(const v1::Task& task, const std::vector<v1::TaskEvent>& events);

// Returns the task as JSON with an additional member `events`, which is null when `events` is null.
std::string TimelineJson(const v1::Task& task, const std::vector<v1::TaskEvent>* events);

// Returns a task and its events, formatted as the setting `output` requires. If the director is too
// old to list events, returns the task alone. Returns NOT_FOUND if there is no such task.
absl::StatusOr<std::string> ShowTask(const config::v1::CliConfig& config,
                                     const std::string& queue_id);

// Returns the status of the director's queue, formatted as the setting `output` requires.
absl::StatusOr<std::string> ShowQueueStatus(const config::v1::CliConfig& config);

// Pause and resume all dispatching. Return the status afterwards.
absl::StatusOr<std::string> PauseQueue(const config::v1::CliConfig& config, const std::string& why);
absl::StatusOr<std::string> ResumeQueue(const config::v1::CliConfig& config);

// Formats the status for people.
std::string QueueStatusTable(const v1::QueueStatus& status);

struct LogArguments {
  std::string queue_id = {};
  // 0 means the last one.
  uint64_t dispatch = 0;
  bool follow = false;
};

// Writes the output of a task: its standard output to `out` and its standard error to `err`, or, as
// JSON, each chunk as a line to `out`. Control characters are escaped on a terminal; a file
// receives the bytes unchanged. With `follow`, continues until the task has ended. Returns
// NOT_FOUND if there is no such task.
absl::Status ShowLogs(const config::v1::CliConfig& config, const LogArguments& arguments,
                      std::FILE* out, std::FILE* err);

// Command line arguments of one command.
struct TaskArguments {
  std::string prompt = {};
  std::string model = {};
  uint32_t timeout_seconds = 0;
  std::string session_id = {};
  std::string request_id = {};
  std::string lane = {};
  std::string policy = {};
  uint32_t max_attempts = 0;
  std::vector<std::string> retry_on = {};
  std::string queue_id = {};
  std::string why = {};
};

// Returns the request for the arguments. Generates a request id if none was given, so that a retry
// of the call is the same submit. Returns a usage error for an unknown policy.
absl::StatusOr<v1::SubmitTaskRequest> SubmitRequest(const TaskArguments& arguments,
                                                    ports::Random& random);

// Submits a task and shows its id and place. Errors: RESOURCE_EXHAUSTED/QUEUE_FULL.
absl::StatusOr<std::string> SubmitTask(const config::v1::CliConfig& config,
                                       const TaskArguments& arguments);
absl::StatusOr<std::string> CancelTask(const config::v1::CliConfig& config,
                                       const TaskArguments& arguments);
// Shows why a task has not started.
absl::StatusOr<std::string> ExplainTask(const config::v1::CliConfig& config,
                                        const TaskArguments& arguments);
absl::StatusOr<std::string> ListAgents(const config::v1::CliConfig& config);

// Format answers for people.
std::string TaskTable(const v1::Task& task);
std::string ExplanationTable(const v1::ExplainTaskResponse& explanation);
std::string AgentsTable(const v1::ListAgentsResponse& agents);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_TASK_COMMANDS_H_
