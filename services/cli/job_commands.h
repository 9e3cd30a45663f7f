// The commands about cron jobs: their arguments, requests, calls and tables.

#ifndef CALLBOARD_SERVICES_CLI_JOB_COMMANDS_H_
#define CALLBOARD_SERVICES_CLI_JOB_COMMANDS_H_

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/scheduler.pb.h"

namespace callboard::cli {

// Command line arguments of one command.
struct JobArguments {
  std::string job = {};
  // The file of `jobs check`.
  std::string file = {};
  bool force = false;
  std::string trigger_id = {};
  std::vector<std::string> schedules = {};
  std::string time_zone = {};
  bool seconds = false;
  std::string from = {};
  std::string until = {};
  int32_t limit = 10;
  bool dry_run = false;
  std::string backfill_id = {};
  std::string why = {};
};

// Parses `text` as RFC 3339 or as a date, which means midnight in UTC. Returns a usage error that
// names `flag` if it is neither.
absl::StatusOr<absl::Time> ParseInstant(absl::string_view flag, const std::string& text);

// ---- Requests ----

// Build requests. They return a usage error for contradictory arguments.
absl::StatusOr<v1::PreviewJobRequest> PreviewRequest(const JobArguments& arguments);
absl::StatusOr<v1::PauseJobRequest> PauseRequest(const JobArguments& arguments);
// `generated_id` is used when the caller gave no id, so that the call can be retried safely.
v1::TriggerJobRequest TriggerRequest(const JobArguments& arguments,
                                     const std::string& generated_id);
absl::StatusOr<v1::BackfillJobRequest> BackfillRequest(const JobArguments& arguments,
                                                       const std::string& generated_id);

// ---- Commands ----

// Each of these commands returns its answer as text.

// Shows all jobs, or one. `jobs check FILE` checks a jobs file without a scheduler.
// Errors: NOT_FOUND, INVALID_ARGUMENT.
absl::StatusOr<std::string> ShowJobs(const config::v1::CliConfig& config,
                                     const JobArguments& arguments);
// Runs a job once and shows the id of its task. Errors: NOT_FOUND, FAILED_PRECONDITION/OVERLAP,
// RESOURCE_EXHAUSTED/QUEUE_FULL, UNAVAILABLE/DIRECTOR_UNREACHABLE.
absl::StatusOr<std::string> TriggerJob(const config::v1::CliConfig& config,
                                       const JobArguments& arguments);
// Shows the occurrences of a job, or of schedules that are not a job yet.
absl::StatusOr<std::string> PreviewJob(const config::v1::CliConfig& config,
                                       const JobArguments& arguments);
// Lists or runs the past occurrences of a job.
absl::StatusOr<std::string> BackfillJob(const config::v1::CliConfig& config,
                                        const JobArguments& arguments);
// Pause and resume a job, or, without a job, the director's queue.
absl::StatusOr<std::string> Pause(const config::v1::CliConfig& config,
                                  const JobArguments& arguments);
absl::StatusOr<std::string> Resume(const config::v1::CliConfig& config,
                                   const JobArguments& arguments);

using JobCommand = absl::StatusOr<std::string> (*)(const config::v1::CliConfig&,
                                                   const JobArguments&);

// Adds a command that runs `run` with the arguments of the command line.
using AddJobCommand =
    std::function<CLI::App&(const std::string& name, const std::string& summary,
                            const std::vector<std::string>& examples, JobCommand run)>;

// Adds the commands about cron jobs, with their flags. Their arguments are parsed into `arguments`,
// which outlives the commands.
void AddJobCommands(const AddJobCommand& add, JobArguments& arguments);

// ---- Text for people ----

// Returns a line for each job.
std::string JobsTable(const v1::ListJobsResponse& jobs);
// Returns one job with all settings in force, its next occurrences and the outcomes of the last
// ones.
std::string JobTable(const v1::Job& job);
std::string PausedText(const v1::Job& job);
std::string ResumedText(const v1::ResumeJobResponse& response);
// If the number of occurrences has reached the request's limit, the text shows how to get more.
std::string PreviewTable(const v1::PreviewJobRequest& request,
                         const v1::PreviewJobResponse& response);
std::string BackfillText(const v1::BackfillJobRequest& request,
                         const v1::BackfillJobResponse& response);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_JOB_COMMANDS_H_
