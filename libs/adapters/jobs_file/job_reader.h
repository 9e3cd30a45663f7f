#ifndef CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_JOB_READER_H_
#define CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_JOB_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/core/job.h"

namespace callboard::adapters {

// The cron jobs that `text` declares, in the form that docs/JOBS.md describes; none when it is
// empty. Each is checked, and names differ.
//
// INVALID_ARGUMENT for what is no YAML, an unknown or repeated key (naming the nearest), or a value
// that is wrong: the error has the form `path:line: job nightly: what is wrong`. No value that may
// be a prompt or a secret is in it.
absl::StatusOr<std::vector<core::Job>> ReadJobs(const std::string& text, const std::string& path);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_JOB_READER_H_
