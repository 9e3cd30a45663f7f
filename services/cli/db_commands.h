// The commands of `callboard db`: verify, stats, checkpoint, restore, get and export. They work on
// a data folder, without a director, except that `checkpoint` asks the director by default.

#ifndef CALLBOARD_SERVICES_CLI_DB_COMMANDS_H_
#define CALLBOARD_SERVICES_CLI_DB_COMMANDS_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/config/v1/cli.pb.h"
#include "libs/store/restore.h"
#include "libs/store/store_folder.h"

namespace callboard::cli {

// Command line arguments of one command. They are not settings, so that a loss can be accepted only
// on the command line, not in a file or in the environment.
struct DbArguments {
  std::string queue_id;
  // Name of a checkpoint.
  std::string name;
  // File to which an export is written.
  std::string to;
  // Checkpoint that is restored.
  std::string from;
  bool accept_loss = false;
  bool skip_damaged = false;
  // Whether --data_dir is on the command line.
  bool has_data_dir = false;
};

// ---- verify, stats ----

// Reads a whole store and writes its damage and its size to `out`. Returns an error if it is
// damaged.
absl::Status VerifyStore(const config::v1::CliConfig& config, const DbArguments& arguments,
                         std::FILE* out);

// Writes statistics of a store to `out`.
absl::Status ShowStoreStats(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out);

// The data of both reports.
struct StoreReport {
  std::string folder;
  store::StoreSurvey survey;
  // Data that was dropped when the store was opened, and that had never been acknowledged.
  std::vector<std::string> notes;
  store::DiskUsage disk;
  uint64_t sequence = 0;
  std::optional<uint64_t> high_water;
  uint32_t format = 0;
  absl::Time now;
};

std::string VerifyText(const StoreReport& report);
std::string VerifyJson(const StoreReport& report);
std::string StatsText(const StoreReport& report);
std::string StatsJson(const StoreReport& report);

// ---- checkpoint, restore ----

// Requests a checkpoint from the director. With --data_dir on the command line, makes a checkpoint
// of that folder itself.
absl::Status CreateCheckpoint(const config::v1::CliConfig& config, const DbArguments& arguments,
                              std::FILE* out);

// Replaces a store by a checkpoint, or repairs a damaged one by accepting what it has lost.
absl::Status RestoreStore(const config::v1::CliConfig& config, const DbArguments& arguments,
                          std::FILE* out);

std::string RestoredText(const std::string& folder, const store::RestoreResult& restored);
std::string RestoredJson(const std::string& folder, const store::RestoreResult& restored);
std::string LossText(const std::string& folder, const store::AcceptLossResult& loss);
std::string LossJson(const std::string& folder, const store::AcceptLossResult& loss);

// ---- get, export ----

// Writes one task and its events to `out`. Returns NOT_FOUND if there is no such task.
absl::Status ShowStoredTask(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out);

// Writes every task as a JSON document on its own line, to the file in the arguments (completely or
// not at all) or else to `out`. Handles signals while it runs: see InterruptHandler.
absl::Status ExportTasks(const config::v1::CliConfig& config, const DbArguments& arguments,
                         std::FILE* out);
// Writes every task to a temporary file, which replaces `path` once it is complete. Returns
// AbortError() when `stop` was requested before that.
absl::Status ExportToFile(const store::StoreFolder& folder, const store::StoreSurvey& survey,
                          const std::string& path, const std::stop_token& stop);

// Returns a task in the full view of the API, and its events: {"task":…,"events":[…],"damage":…}.
// `damage` is null, or the reason why the task is incomplete. REQUIRES: at least one of the task's
// records can be read.
std::string TaskJson(const store::SurveyedTask& task, const store::ReadTaskResult& reading);
// Returns the same as text for people.
std::string TaskText(const store::SurveyedTask& task, const store::ReadTaskResult& reading);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DB_COMMANDS_H_
