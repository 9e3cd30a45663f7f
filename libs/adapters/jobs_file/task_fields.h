#ifndef CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_TASK_FIELDS_H_
#define CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_TASK_FIELDS_H_

#include <yaml-cpp/yaml.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/core/task.h"

namespace callboard::adapters {

// The keys of a job that say what it submits: the fields of SubmitTaskRequest, but for those that
// are the scheduler's to set.
std::vector<std::string> TaskFieldNames();

// What a job submits, of the keys that it has of those. INVALID_ARGUMENT with a field violation for
// each that is wrong.
absl::StatusOr<core::TaskSpec> ReadTaskFields(const std::map<std::string, YAML::Node>& fields);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_TASK_FIELDS_H_
