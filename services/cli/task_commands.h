// The commands about single tasks, and about agents.
#ifndef CALLBOARD_SERVICES_CLI_TASK_COMMANDS_H_
#define CALLBOARD_SERVICES_CLI_TASK_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/ports/random.h"

namespace callboard::cli {

// What is said to one command alone.
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

// What is sent for them. A task without a request id gets one by chance, so that a repeated call is
// the same submit. A usage error for a policy that there is not.
absl::StatusOr<v1::SubmitTaskRequest> SubmitRequest(const TaskArguments& arguments,
                                                    ports::Random& random);

// Submits a task; says its name and place. RESOURCE_EXHAUSTED/QUEUE_FULL.
absl::StatusOr<std::string> SubmitTask(const config::v1::CliConfig& config,
                                       const TaskArguments& arguments);
absl::StatusOr<std::string> CancelTask(const config::v1::CliConfig& config,
                                       const TaskArguments& arguments);
// Why a task has not started.
absl::StatusOr<std::string> ExplainTask(const config::v1::CliConfig& config,
                                        const TaskArguments& arguments);
absl::StatusOr<std::string> ListAgents(const config::v1::CliConfig& config);

// The same for people.
std::string TaskTable(const v1::Task& task);
std::string ExplanationTable(const v1::ExplainTaskResponse& explanation);
std::string AgentsTable(const v1::ListAgentsResponse& agents);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_TASK_COMMANDS_H_
