#ifndef CALLBOARD_SERVICES_CLI_LOGS_H_
#define CALLBOARD_SERVICES_CLI_LOGS_H_

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "callboard/config/v1/cli.pb.h"

namespace callboard::cli {

struct LogArguments {
  std::string queue_id = {};
  // The last one when 0.
  uint64_t dispatch = 0;
  bool follow = false;
};

// Writes what a task wrote: its standard output to `out`, its standard error to `err`; as JSON,
// each chunk as a line to `out`. A terminal gets control characters escaped, a file every byte.
// Goes on until the task has ended when it follows. NOT_FOUND.
absl::Status ShowLogs(const config::v1::CliConfig& config, const LogArguments& arguments,
                      std::FILE* out, std::FILE* err);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_LOGS_H_
