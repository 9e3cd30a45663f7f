#include "services/cli/db_report.h"

#include "absl/strings/str_cat.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/json_quoted.h"
#include "libs/base/status_macros.h"

namespace callboard::cli {
namespace {

using adapters::StoreFolder;
using adapters::StoreSurvey;

absl::StatusOr<StoreReport> ReportOf(const StoreFolder& folder) {
  StoreReport report = {.folder = folder.files().folder.string(),
                        .survey = SurveyAloud(folder),
                        .notes = {},
                        .disk = {},
                        .sequence = folder.sequence(),
                        .high_water = folder.high_water(),
                        .format = folder.format(),
                        .now = adapters::SystemClock().WallNow()};
  if (folder.refusal().ok()) report.notes = folder.complaints();
  if (folder.is_readable()) {
    ASSIGN_OR_RETURN(report.disk, folder.MeasureDiskUse());
  }
  return report;
}

std::string HighWaterText(const StoreReport& report) {
  return report.high_water.has_value() ? absl::StrCat(*report.high_water) : "unknown";
}

std::string CountsText(const core::StateCounts& counts) {
  return absl::StrCat(counts.pending, " pending, ", counts.dispatching, " dispatching, ",
                      counts.working, " working, ", counts.completed, " completed, ", counts.failed,
                      " failed, ", counts.cancelled, " cancelled");
}

std::string CountsJson(const core::StateCounts& counts) {
  return absl::StrCat("{\"pending\":", counts.pending, ",\"dispatching\":", counts.dispatching,
                      ",\"working\":", counts.working, ",\"completed\":", counts.completed,
                      ",\"failed\":", counts.failed, ",\"cancelled\":", counts.cancelled, "}");
}

const char* BoolJson(bool value) { return value ? "true" : "false"; }

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

std::string OldestText(const StoreReport& report) {
  const StoreSurvey& survey = report.survey;
  if (!survey.oldest_pending.has_value()) return "none";
  const absl::Duration age = absl::Trunc(report.now - survey.oldest_pending_at, absl::Seconds(1));
  return absl::StrCat(core::ToString(*survey.oldest_pending), ", for ", absl::FormatDuration(age));
}

std::string Doing(const StoreSurvey& survey) {
  if (survey.draining) return "draining";
  return survey.paused ? "paused" : "accepts and dispatches";
}

}  // namespace

std::string VerifyText(const StoreReport& report) {
  std::string text;
  for (const std::string& finding : report.survey.findings) {
    absl::StrAppend(&text, "damaged: ", finding, "\n");
  }
  for (const std::string& note : report.notes) {
    absl::StrAppend(&text, "dropped, never acknowledged: ", note, "\n");
  }
  const bool is_whole = report.survey.findings.empty();
  absl::StrAppend(&text, "store      ", report.folder, is_whole ? " is whole" : " is damaged",
                  "\n",                                             //
                  "tasks      ", report.survey.tasks.size(), "\n",  //
                  "records    ", report.survey.records, "\n",       //
                  "bytes      ", report.disk.total(), "\n",         //
                  "sequence   ", report.sequence, ", committed: ",  //
                  HighWaterText(report), "\n",                      //
                  "format     ", report.format, "\n");
  return text;
}

std::string VerifyJson(const StoreReport& report) {
  return absl::StrCat("{\"data_dir\":", base::JsonQuoted(report.folder),        //
                      ",\"whole\":", BoolJson(report.survey.findings.empty()),  //
                      ",\"findings\":", ListJson(report.survey.findings),       //
                      ",\"dropped\":", ListJson(report.notes),                  //
                      ",\"tasks\":", report.survey.tasks.size(),                //
                      ",\"records\":", report.survey.records,                   //
                      ",\"bytes\":", report.disk.total(),                       //
                      ",\"sequence\":", report.sequence,                        //
                      ",\"high_water\":", HighWaterJson(report.high_water),     //
                      ",\"format\":", report.format, "}\n");
}

std::string StatsText(const StoreReport& report) {
  const StoreSurvey& survey = report.survey;
  return absl::StrCat("store      ", report.folder, ", format ", report.format, "\n",  //
                      "queue      ", Doing(survey), ", epoch ", survey.epoch, "\n",    //
                      "tasks      ", survey.tasks.size(), ": ",                        //
                      CountsText(survey.counts), "\n",                                 //
                      "  oldest   ", OldestText(report), "\n",                         //
                      "records    ", survey.records, "\n",                             //
                      "requests   ", survey.remembered_requests,                       //
                      " request ids outlive their task\n",                             //
                      "agents     ", survey.marked_agents, " drained or cordoned\n",   //
                      "bytes      ", report.disk.total(), ": ", report.disk.logs,      //
                      " in logs, ", report.disk.tables, " in tables, ",                //
                      report.disk.others, " in others\n",                              //
                      "sequence   ", report.sequence, ", committed: ",                 //
                      HighWaterText(report), "\n");
}

std::string StatsJson(const StoreReport& report) {
  const StoreSurvey& survey = report.survey;
  std::string oldest = "null";
  if (survey.oldest_pending.has_value()) {
    oldest = absl::StrCat("{\"queue_id\":\"", core::ToString(*survey.oldest_pending),
                          "\",\"created_at\":\"", TimeText(survey.oldest_pending_at), "\"}");
  }
  return absl::StrCat(
      "{\"data_dir\":", base::JsonQuoted(report.folder), ",\"format\":", report.format,
      ",\"epoch\":", survey.epoch, ",\"paused\":", BoolJson(survey.paused),
      ",\"draining\":", BoolJson(survey.draining), ",\"tasks\":", survey.tasks.size(),
      ",\"counts\":", CountsJson(survey.counts), ",\"oldest_pending\":", oldest,
      ",\"records\":", survey.records, ",\"remembered_requests\":", survey.remembered_requests,
      ",\"marked_agents\":", survey.marked_agents, ",\"bytes\":{\"logs\":", report.disk.logs,
      ",\"tables\":", report.disk.tables, ",\"others\":", report.disk.others,
      "},\"sequence\":", report.sequence, ",\"high_water\":", HighWaterJson(report.high_water),
      "}\n");
}

absl::Status VerifyStore(const config::v1::CliConfig& config, const DbArguments&, std::FILE* out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  ASSIGN_OR_RETURN(const StoreReport report, ReportOf(*folder));
  std::fputs((WantsJson(config) ? VerifyJson(report) : VerifyText(report)).c_str(), out);
  return DamageOf(*folder, report.survey);
}

absl::Status ShowStoreStats(const config::v1::CliConfig& config, const DbArguments& arguments,
                            std::FILE* out) {
  ASSIGN_OR_RETURN(const std::unique_ptr<StoreFolder> folder, OpenFolder(config));
  ASSIGN_OR_RETURN(const StoreReport report, ReportOf(*folder));
  RETURN_IF_ERROR(PassOver(arguments, *folder, report.survey));
  std::fputs((WantsJson(config) ? StatsJson(report) : StatsText(report)).c_str(), out);
  return absl::OkStatus();
}

}  // namespace callboard::cli
