// The fields that a submitter sets, which SubmitTaskRequest and Task have under the same names.
#ifndef CALLBOARD_LIBS_WIRE_TASK_SPEC_H_
#define CALLBOARD_LIBS_WIRE_TASK_SPEC_H_

#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/task.h"
#include "libs/wire/field_checks.h"

namespace callboard::wire {

// What `proto` asks for; `checks` gets what is wrong with it.
core::TaskSpec ReadSpec(const v1::SubmitTaskRequest& proto, FieldChecks& checks);
core::TaskSpec ReadSpec(const v1::Task& proto, FieldChecks& checks);

void WriteSpec(const core::TaskSpec& spec, v1::SubmitTaskRequest& proto);
void WriteSpec(const core::TaskSpec& spec, v1::Task& proto);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TASK_SPEC_H_
