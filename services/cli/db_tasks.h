// `callboard db get` and `callboard db export`.
#ifndef CALLBOARD_SERVICES_CLI_DB_TASKS_H_
#define CALLBOARD_SERVICES_CLI_DB_TASKS_H_

#include <cstdio>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "libs/adapters/rocksdb_store/store_folder.h"
#include "libs/adapters/rocksdb_store/store_survey.h"
#include "services/cli/db_folder.h"

namespace callboard::cli {

// Writes one task to `out`, and what happened to it. NOT_FOUND.
absl::Status ShowStoredTask(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out);

// Writes every task, a JSON document on a line of its own each, to the file that the arguments name
// (whole or not at all) or else to `out`. Takes over the signals: see Interruption.
absl::Status ExportTasks(const config::v1::CliConfig& config, const DbArguments& arguments,
                         std::FILE* out);
// The same to a file that takes its place when it is whole. AbortError() when `stop` was requested
// before.
absl::Status ExportToFile(const adapters::StoreFolder& folder, const adapters::StoreSurvey& survey,
                          const std::string& path, const std::stop_token& stop);

// A task as the API shows it in full, and its events: {"task":…,"events":[…],"damage":…}. The last
// is null, or says why this is not all of it. REQUIRES: at least one record can be read.
std::string TaskJson(const adapters::SurveyedTask& task, const adapters::TaskReading& reading);
// The same for people.
std::string TaskText(const adapters::SurveyedTask& task, const adapters::TaskReading& reading);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DB_TASKS_H_
