// Tasks between callboard.v1 and libs/core. What comes in is checked here, once: every limit of
// libs/core/limits.h, every form. An error is INVALID_ARGUMENT and names each wrong field, its
// limit and its size.
#ifndef CALLBOARD_LIBS_WIRE_TASK_H_
#define CALLBOARD_LIBS_WIRE_TASK_H_

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/task.h"

namespace callboard::wire {

absl::StatusOr<core::Submission> FromProto(const v1::SubmitTaskRequest& proto);
v1::SubmitTaskRequest ToProto(const core::Submission& submission);

absl::StatusOr<core::Task> FromProto(const v1::Task& proto);
v1::Task ToProto(const core::Task& task);

absl::StatusOr<core::TaskEvent> FromProto(const v1::TaskEvent& proto);
v1::TaskEvent ToProto(const core::TaskEvent& event);

absl::StatusOr<core::FenceToken> FromProto(const v1::FenceToken& proto);
v1::FenceToken ToProto(const core::FenceToken& token);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TASK_H_
