// Conversions between messages of callboard.v1 and the types of libs/agent.
#ifndef CALLBOARD_SERVICES_AGENT_RUN_MESSAGES_H_
#define CALLBOARD_SERVICES_AGENT_RUN_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "libs/agent/engine.h"
#include "libs/agent/run_table.h"
#include "libs/core/session.h"

namespace callboard {

// These functions parse a request. If it is invalid, they return INVALID_ARGUMENT, which names
// every invalid field.
absl::StatusOr<agent::DirectStart> StartFrom(const v1::StartTaskRequest& request);
absl::StatusOr<std::string> TaskIdFrom(const v1::AgentServiceGetTaskRequest& request);
absl::StatusOr<agent::OutputQuery> OutputQueryFrom(const v1::TailLogsRequest& request);

v1::StartTaskResponse ToProto(const agent::DirectStartResult& start);
v1::AgentRun ToProto(const agent::RunView& run);
v1::TailLogsResponse ToProto(const core::RunOutput& output);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_RUN_MESSAGES_H_
