// `callboard db verify` and `callboard db stats`.
#ifndef CALLBOARD_SERVICES_CLI_DB_REPORT_H_
#define CALLBOARD_SERVICES_CLI_DB_REPORT_H_

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/store_survey.h"
#include "services/cli/db_folder.h"

namespace callboard::cli {

// Reads all of a store, and writes to `out` what is wrong with it and how much it holds.
absl::Status VerifyStore(const config::v1::CliConfig& config, const DbArguments& arguments,
                         std::FILE* out);

// Writes to `out` what a store holds.
absl::Status ShowStoreStats(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out);

// What there is to say about a store.
struct StoreReport {
  std::string folder;
  adapters::StoreSurvey survey;
  // What was dropped at opening and is no loss.
  std::vector<std::string> notes;
  adapters::DiskUse disk;
  uint64_t sequence = 0;
  std::optional<uint64_t> high_water;
  uint32_t format = 0;
  absl::Time now;
};

std::string VerifyText(const StoreReport& report);
std::string VerifyJson(const StoreReport& report);
std::string StatsText(const StoreReport& report);
std::string StatsJson(const StoreReport& report);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_DB_REPORT_H_
