// What the commands of `callboard db` have in common.
#ifndef CALLBOARD_SERVICES_CLI_DB_FOLDER_H_
#define CALLBOARD_SERVICES_CLI_DB_FOLDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "callboard/config/v1/cli.pb.h"
#include "libs/adapters/rocksdb_store/store_folder.h"
#include "libs/adapters/rocksdb_store/store_survey.h"

namespace callboard::cli {

// What is said to one command alone. None of it is a setting: neither a file nor the environment
// accepts a loss.
struct DbArguments {
  std::string queue_id;
  // Of a checkpoint.
  std::string name;
  // Where an export goes, and where a restore comes from.
  std::string to;
  std::string from;
  bool accept_loss = false;
  bool skip_damaged = false;
  // Whether the command line names the folder.
  bool has_data_dir = false;
};

// The store of the folder that the settings name, to be read, damaged or not.
absl::StatusOr<std::unique_ptr<adapters::StoreFolder>> OpenFolder(
    const config::v1::CliConfig& config);

// Shows people at a terminal, on a line of standard error, how far the work has come; the line is
// gone with the object.
class ProgressLine {
 public:
  // `verb` is what happens to the records: `read`.
  explicit ProgressLine(std::string verb);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // How many of how many; the latter is 0 when it is not known.
  void Show(uint64_t done, uint64_t all = 0) const;

 private:
  const std::string verb_;
  const bool is_seen_;
};

// Survey(), with a ProgressLine.
adapters::StoreSurvey SurveyAloud(const adapters::StoreFolder& folder);

// With what to do about it; the first finding stands for all. OK when there is none.
absl::Status DamageOf(const adapters::StoreFolder& folder, const adapters::StoreSurvey& survey);

// For a store that is to be shown although it is damaged: OK, and on standard error what is left
// out, if the arguments allow that; else DamageOf().
absl::Status PassOver(const DbArguments& arguments, const adapters::StoreFolder& folder,
                      const adapters::StoreSurvey& survey);

// An error about a folder that is in use, saying what to do instead; others stay as they are.
absl::Status WithoutDirector(const absl::Status& status, absl::string_view instead);

bool WantsJson(const config::v1::CliConfig& config);

std::string ListJson(const std::vector<std::string>& texts);
std::string HighWaterJson(std::optional<uint64_t> high_water);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DB_FOLDER_H_
