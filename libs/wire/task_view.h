// How much of a task is shown.
#ifndef CALLBOARD_LIBS_WIRE_TASK_VIEW_H_
#define CALLBOARD_LIBS_WIRE_TASK_VIEW_H_

#include "callboard/v1/task.pb.h"

namespace callboard::wire {

// Takes out what only the full view has: payload, result and the values of the environment.
void MakeBasic(v1::Task& task);

// As in a list: basic, and the prompt cut at 1 KiB.
void MakeListed(v1::Task& task);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_TASK_VIEW_H_
