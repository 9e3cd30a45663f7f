#include "services/cli/db_folder.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/base/error.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/ports/event_store.h"

namespace callboard::cli {

absl::StatusOr<std::unique_ptr<adapters::StoreFolder>> OpenFolder(
    const config::v1::CliConfig& config) {
  auto folder = adapters::StoreFolder::Open(config.data_dir());
  if (!folder.ok()) {
    return WithoutDirector(folder.status(),
                           "make a checkpoint with `callboard db checkpoint` and look at that");
  }
  // Of damage one can look at what is left.
  const absl::Status& refusal = (*folder)->refusal();
  if (!refusal.ok() && !absl::IsDataLoss(refusal)) return refusal;
  return folder;
}

ProgressLine::ProgressLine(std::string verb)
    : verb_(std::move(verb)), is_seen_(isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (is_seen_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Show(uint64_t done, uint64_t all) const {
  if (!is_seen_) return;
  const std::string of = all == 0 ? "" : absl::StrCat(" of about ", all);
  std::fputs(absl::StrCat("\r", verb_, " ", done, of).c_str(), stderr);
}

adapters::StoreSurvey SurveyAloud(const adapters::StoreFolder& folder) {
  const ProgressLine line("records read:");
  const uint64_t all = folder.EstimateRecords();
  return Survey(folder, [&](uint64_t records) { line.Show(records, all); });
}

absl::Status DamageOf(const adapters::StoreFolder& folder, const adapters::StoreSurvey& survey) {
  if (survey.findings.empty()) return absl::OkStatus();
  const std::string restore =
      absl::StrCat("`callboard db restore --data_dir=", folder.files().folder.string());
  return adapters::StoreRefused(
      absl::StrCat(survey.findings.front(), "; ", restore,
                   " --from=<checkpoint>` puts a checkpoint in its place, ", restore,
                   " --accept_loss` goes on without what is lost"));
}

absl::Status PassOver(const DbArguments& arguments, const adapters::StoreFolder& folder,
                      const adapters::StoreSurvey& survey) {
  if (!arguments.skip_damaged || !folder.is_readable()) return DamageOf(folder, survey);
  for (const std::string& finding : survey.findings) {
    std::fprintf(stderr, "skipped: %s\n", base::Escaped(finding).c_str());
  }
  return absl::OkStatus();
}

absl::Status WithoutDirector(const absl::Status& status, absl::string_view instead) {
  if (base::DetailsOf(status).reason != ports::kStoreLocked) return status;
  return base::WithReason(
      absl::FailedPreconditionError(absl::StrCat(status.message(), "; ", instead)),
      ports::kStoreLocked);
}

bool WantsJson(const config::v1::CliConfig& config) {
  return config.output() == config::v1::CliConfig::OUTPUT_JSON;
}

std::string ListJson(const std::vector<std::string>& texts) {
  const auto append = [](std::string* out, const std::string& text) {
    absl::StrAppend(out, base::JsonQuoted(text));
  };
  return absl::StrCat("[", absl::StrJoin(texts, ",", append), "]");
}

std::string HighWaterJson(std::optional<uint64_t> high_water) {
  return high_water.has_value() ? absl::StrCat(*high_water) : "null";
}

}  // namespace callboard::cli
