// The commands about cron jobs.
#ifndef CALLBOARD_SERVICES_CLI_JOB_COMMANDS_H_
#define CALLBOARD_SERVICES_CLI_JOB_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "callboard/config/v1/cli.pb.h"
#include "services/cli/job_requests.h"

namespace callboard::cli {

// All jobs, or the one that was named; of `jobs check FILE`, whether a scheduler would take the
// file, without asking any. NOT_FOUND, INVALID_ARGUMENT.
absl::StatusOr<std::string> ShowJobs(const config::v1::CliConfig& config,
                                     const JobArguments& arguments);
// Runs a job once; says the name of its task. NOT_FOUND, FAILED_PRECONDITION/OVERLAP,
// RESOURCE_EXHAUSTED/QUEUE_FULL, UNAVAILABLE/DIRECTOR_UNREACHABLE.
absl::StatusOr<std::string> TriggerJob(const config::v1::CliConfig& config,
                                       const JobArguments& arguments);
// When a job, or a schedule that is no job yet, happens.
absl::StatusOr<std::string> PreviewJob(const config::v1::CliConfig& config,
                                       const JobArguments& arguments);
// Lists or runs what is past.
absl::StatusOr<std::string> BackfillJob(const config::v1::CliConfig& config,
                                        const JobArguments& arguments);
// The job that was named; else the queue of the director.
absl::StatusOr<std::string> Pause(const config::v1::CliConfig& config,
                                  const JobArguments& arguments);
absl::StatusOr<std::string> Resume(const config::v1::CliConfig& config,
                                   const JobArguments& arguments);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_JOB_COMMANDS_H_
