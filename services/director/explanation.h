#ifndef CALLBOARD_SERVICES_DIRECTOR_EXPLANATION_H_
#define CALLBOARD_SERVICES_DIRECTOR_EXPLANATION_H_

#include "callboard/v1/queue.pb.h"
#include "libs/core/ids.h"
#include "libs/director/engine.h"

namespace callboard {

// Why a task has not started, as its users see it.
v1::ExplainTaskResponse ToProto(core::QueueId id, const director::Explanation& explanation);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_EXPLANATION_H_
