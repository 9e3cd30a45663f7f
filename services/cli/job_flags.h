#ifndef CALLBOARD_SERVICES_CLI_JOB_FLAGS_H_
#define CALLBOARD_SERVICES_CLI_JOB_FLAGS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "services/cli/job_commands.h"
#include "services/cli/job_requests.h"

namespace callboard::cli {

using JobCommand = absl::StatusOr<std::string> (*)(const config::v1::CliConfig&,
                                                   const JobArguments&);

// Adds a command that runs `run` with the arguments of the command line.
using AddJobCommand =
    std::function<CLI::App&(const std::string& name, const std::string& summary,
                            const std::vector<std::string>& examples, JobCommand run)>;

// Adds the commands about cron jobs, with their flags. What is said to them goes to `arguments`,
// which outlives them.
void AddJobCommands(const AddJobCommand& add, JobArguments& arguments);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_JOB_FLAGS_H_
