// Converts the submits of cron jobs to callboard.v1.

#ifndef CALLBOARD_LIBS_WIRE_JOB_H_
#define CALLBOARD_LIBS_WIRE_JOB_H_

#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/job.h"

namespace callboard::wire {

// Returns the submit: the job's task with the fields of this submission.
v1::SubmitTaskRequest ToProto(const core::JobSubmission& submission);

// Returns the same task for a direct start on an agent, which has no queue and so no policy.
v1::Task DirectTask(const core::JobSubmission& submission);

// Returns the task as the job declares it.
v1::Task DeclaredTask(const core::Job& job);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_JOB_H_
