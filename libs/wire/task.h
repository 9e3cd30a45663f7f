// Converts tasks, their events and the queue's status from libs/core to callboard.v1. Fence tokens
// are converted in both directions.

#ifndef CALLBOARD_LIBS_WIRE_TASK_H_
#define CALLBOARD_LIBS_WIRE_TASK_H_

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"

namespace callboard::wire {

v1::Task ToProto(const core::Task& task);

v1::TaskEvent ToProto(const core::TaskEvent& event);

absl::StatusOr<core::FenceToken> FromProto(const v1::FenceToken& proto);
v1::FenceToken ToProto(const core::FenceToken& token);

// Convert the end of a run: in a Session, in an agent's journal and in the director's store.
// WriteResult() does not change the other fields of `proto`. A state that is not final, or unknown
// to this version, is an error.
void WriteResult(const core::RunResult& result, v1::AgentRun& proto);
absl::StatusOr<core::RunResult> ReadResult(const v1::AgentRun& proto);

v1::QueueStatus ToProto(const core::QueueStatus& status);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TASK_H_
