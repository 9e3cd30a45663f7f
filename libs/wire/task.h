// Converts tasks and the queue's status between callboard.v1 and libs/core. Incoming messages are
// validated here and nowhere else: the limits of libs/core/limits.h and the form of each field.
// Errors are INVALID_ARGUMENT and list each invalid field, with its limit and size.

#ifndef CALLBOARD_LIBS_WIRE_TASK_H_
#define CALLBOARD_LIBS_WIRE_TASK_H_

#include "absl/status/statusor.h"
#include "callboard/v1/agent.pb.h"
#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/queue.h"
#include "libs/core/task.h"
#include "libs/wire/fields.h"

namespace callboard::wire {

// The spec has the fields that a submitter sets. SubmitTaskRequest and Task have them under the
// same names.
//
// Read the spec from `proto`. Add violations for invalid fields to `checks`.
core::TaskSpec ReadSpec(const v1::SubmitTaskRequest& proto, FieldChecks& checks);
core::TaskSpec ReadSpec(const v1::Task& proto, FieldChecks& checks);

void WriteSpec(const core::TaskSpec& spec, v1::SubmitTaskRequest& proto);
void WriteSpec(const core::TaskSpec& spec, v1::Task& proto);

absl::StatusOr<core::Submission> FromProto(const v1::SubmitTaskRequest& proto);
v1::SubmitTaskRequest ToProto(const core::Submission& submission);

absl::StatusOr<core::Task> FromProto(const v1::Task& proto);
v1::Task ToProto(const core::Task& task);

absl::StatusOr<core::TaskEvent> FromProto(const v1::TaskEvent& proto);
v1::TaskEvent ToProto(const core::TaskEvent& event);

absl::StatusOr<core::FenceToken> FromProto(const v1::FenceToken& proto);
v1::FenceToken ToProto(const core::FenceToken& token);

// ---- Views, which leave out large or secret fields ----

// Removes the fields of the full view only: payload, result and the values of the environment.
void ReduceToBasicView(v1::Task& task);

// Reduces the task to the basic view, and truncates the prompt to 1 KiB.
void ReduceToListView(v1::Task& task);

v1::QueueStatus ToProto(const core::QueueStatus& status);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TASK_H_
