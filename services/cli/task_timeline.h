#ifndef CALLBOARD_SERVICES_CLI_TASK_TIMELINE_H_
#define CALLBOARD_SERVICES_CLI_TASK_TIMELINE_H_

#include <string>
#include <vector>

#include "callboard/v1/task.pb.h"

namespace callboard::cli {

// The life of a task for people: a line for each event, the first one first. What is long is cut.
std::string TimelineTable(const v1::Task& task, const std::vector<v1::TaskEvent>& events);

// The task as everywhere in JSON, with a member `events`; null when nobody knows them.
std::string TimelineJson(const v1::Task& task, const std::vector<v1::TaskEvent>* events);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_TASK_TIMELINE_H_
