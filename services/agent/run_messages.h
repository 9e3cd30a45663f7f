// Runs between callboard.v1 and the agent.
#ifndef CALLBOARD_SERVICES_AGENT_RUN_MESSAGES_H_
#define CALLBOARD_SERVICES_AGENT_RUN_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "libs/agent/engine.h"
#include "libs/agent/run_book.h"
#include "libs/core/session.h"
#include "libs/core/task.h"

namespace callboard {

// What a request asks for; each as INVALID_ARGUMENT, which names every wrong field, when it cannot
// be meant.
absl::StatusOr<core::SpecPtr> SpecFrom(const v1::StartTaskRequest& request);
absl::StatusOr<std::string> TaskIdFrom(const v1::AgentServiceGetTaskRequest& request);
absl::StatusOr<agent::OutputQuery> OutputQueryFrom(const v1::TailLogsRequest& request);

v1::StartTaskResponse ToProto(const agent::DirectStart& start);
v1::AgentRun ToProto(const agent::RunView& run);
v1::TailLogsResponse ToProto(const core::OutputWritten& piece);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_RUN_MESSAGES_H_
