// Cron jobs in callboard.v1: enums, and the submits of a job.

#ifndef CALLBOARD_LIBS_WIRE_JOB_H_
#define CALLBOARD_LIBS_WIRE_JOB_H_

#include "callboard/v1/queue.pb.h"
#include "callboard/v1/scheduler.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/core/job.h"
#include "libs/wire/enums.h"

namespace callboard::wire {

inline constexpr EnumPair<core::CatchUp::Kind, v1::Job::CatchUp> kCatchUps[] = {
    {core::CatchUp::Kind::kLatest, v1::Job::CATCH_UP_LATEST},
    {core::CatchUp::Kind::kNone, v1::Job::CATCH_UP_NONE},
    {core::CatchUp::Kind::kAll, v1::Job::CATCH_UP_ALL},
};

// Returns the submit: the job's task with the fields of this submission.
v1::SubmitTaskRequest ToProto(const core::JobSubmission& submission);

// Returns the same task for a direct start on an agent, which has no queue and so no policy.
v1::Task DirectTask(const core::JobSubmission& submission);

// Returns the task as the job declares it.
v1::Task DeclaredTask(const core::Job& job);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_JOB_H_
