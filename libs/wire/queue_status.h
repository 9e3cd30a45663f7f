#ifndef CALLBOARD_LIBS_WIRE_QUEUE_STATUS_H_
#define CALLBOARD_LIBS_WIRE_QUEUE_STATUS_H_

#include "callboard/v1/queue.pb.h"
#include "libs/core/queue.h"

namespace callboard::wire {

v1::QueueStatus ToProto(const core::QueueStatus& status);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_QUEUE_STATUS_H_
