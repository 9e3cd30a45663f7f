// `callboard db checkpoint` and `callboard db restore`.
#ifndef CALLBOARD_SERVICES_CLI_DB_RESTORE_H_
#define CALLBOARD_SERVICES_CLI_DB_RESTORE_H_

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "callboard/v1/queue.pb.h"
#include "libs/adapters/rocksdb_store/restore.h"
#include "services/cli/db_folder.h"

namespace callboard::cli {

// Asks the director for a checkpoint; or makes one itself, of the folder that the command line
// names.
absl::Status CreateCheckpoint(const config::v1::CliConfig& config, const DbArguments& arguments,
                              std::FILE* out);

// Puts a checkpoint in place of a store, or accepts what a damaged one has lost.
absl::Status RestoreStore(const config::v1::CliConfig& config, const DbArguments& arguments,
                          std::FILE* out);

std::string CheckpointText(const v1::CreateCheckpointResponse& checkpoint);
std::string RestoredText(const std::string& folder, const adapters::Restored& restored);
std::string RestoredJson(const std::string& folder, const adapters::Restored& restored);
std::string LossText(const std::string& folder, const adapters::AcceptedLoss& loss);
std::string LossJson(const std::string& folder, const adapters::AcceptedLoss& loss);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DB_RESTORE_H_
