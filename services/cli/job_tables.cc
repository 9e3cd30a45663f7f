#include "services/cli/job_tables.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "libs/base/json_quoted.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using google::protobuf::Timestamp;
using v1::Firing;
using v1::Job;
using Rows = std::vector<std::vector<std::string>>;

absl::Time TimeOf(const Timestamp& proto) {
  return wire::FromProto(proto).value_or(absl::UnixEpoch());
}

// With parts of a second only where there are some: schedules have none.
std::string InstantText(const Timestamp& proto) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%E*S UTC", TimeOf(proto), absl::UTCTimeZone());
}

std::string DurationText(const google::protobuf::Duration& proto) {
  return absl::FormatDuration(wire::FromProto(proto).value_or(absl::ZeroDuration()));
}

std::string CountText(uint64_t count) {
  return count == 1 ? "1 occurrence" : absl::StrCat(count, " occurrences");
}

std::string SchedulesText(const Job& job) { return absl::StrJoin(job.schedules(), "; "); }

std::string ZoneText(const Job& job) { return job.time_zone().empty() ? "UTC" : job.time_zone(); }

std::string NextText(const Job& job) {
  return job.next_fires().empty() ? "none" : InstantText(job.next_fires(0));
}

std::string StateText(const Job& job) {
  if (!job.paused()) return "active";
  return job.has_paused_until() ? absl::StrCat("paused until ", InstantText(job.paused_until()))
                                : "paused";
}

// Who paused it, until when, and why, as far as that is known.
std::string PauseText(const Job& job) {
  std::string text = "paused";
  if (!job.paused_by().empty()) absl::StrAppend(&text, " by ", job.paused_by());
  absl::StrAppend(&text, " until ",
                  job.has_paused_until() ? InstantText(job.paused_until()) : "it is resumed");
  if (!job.pause_why().empty()) absl::StrAppend(&text, ": ", job.pause_why());
  return Plain(text);
}

// How the last run ended: `failed (exec_failed)`; empty before the first that did.
std::string RunText(const Job& job) {
  if (job.last_run_state() == v1::Task::STATE_UNSPECIFIED) return "";
  std::string text = wire::EnumText(*v1::Task::State_descriptor(), job.last_run_state());
  if (job.last_run_reason() != v1::Task::REASON_UNSPECIFIED) {
    absl::StrAppend(&text, " (",
                    wire::EnumText(*v1::Task::Reason_descriptor(), job.last_run_reason()), ")");
  }
  return text;
}

// What became of the last occurrence: of one that made a task, how that stands.
std::string OutcomeOfLast(const Job& job) {
  if (job.last_status().empty()) return "none";
  const std::string run = RunText(job);
  if (job.last_status() != "queued") {
    return run.empty() ? job.last_status() : absl::StrCat(job.last_status(), ", run before: ", run);
  }
  const auto& live = job.running_queue_ids();
  const bool is_live = std::find(live.begin(), live.end(), job.last_queue_id()) != live.end();
  return is_live || run.empty() ? job.last_status() : run;
}

std::string LastText(const Job& job) {
  std::string text = OutcomeOfLast(job);
  if (job.has_last_fire_at()) absl::StrAppend(&text, ", ", InstantText(job.last_fire_at()));
  if (!job.last_queue_id().empty()) absl::StrAppend(&text, ", last task ", job.last_queue_id());
  return text;
}

std::string CatchUpText(const Job& job) {
  if (job.catch_up() == Job::CATCH_UP_ALL) return absl::StrCat("all: ", job.catch_up_max());
  return wire::EnumText(*Job::CatchUp_descriptor(), job.catch_up());
}

// What is in force, named as in the file, and where it comes from.
Rows PolicyRows(const Job& job) {
  const auto row = [&job](const char* key, const std::string& value) {
    const auto origin = job.origins().find(key);
    return std::vector<std::string>{key, value,
                                    origin == job.origins().end() ? "" : origin->second};
  };
  const auto instant = [](bool is_set, const Timestamp& proto) {
    return is_set ? InstantText(proto) : "none";
  };
  const auto limit = [](uint32_t count) {
    return count == 0 ? std::string("none") : absl::StrCat(count);
  };
  return {
      {"SETTING", "VALUE", "FROM"},
      row("schedule", SchedulesText(job)),
      row("seconds", job.seconds() ? "true" : "false"),
      row("time_zone", ZoneText(job)),
      row("overlap", wire::EnumText(*v1::Overlap::Policy_descriptor(), job.overlap())),
      row("catch_up", CatchUpText(job)),
      row("on_queue_full", job.has_queue_full_wait()
                               ? absl::StrCat("wait: ", DurationText(job.queue_full_wait()))
                               : "skip"),
      row("jitter", job.has_jitter() ? DurationText(job.jitter()) : "none"),
      row("start", instant(job.has_start(), job.start())),
      row("end", instant(job.has_end(), job.end())),
      row("max_runs", limit(job.max_runs())),
      row("pause_after_failures", limit(job.pause_after_failures())),
      row("agent_url", job.agent_url().empty() ? "none" : job.agent_url()),
      row("paused", job.paused() ? "true" : "false"),
  };
}

std::string OutcomeText(Firing::Outcome outcome) {
  return wire::EnumText(*Firing::Outcome_descriptor(), outcome);
}

std::string FiringsText(const Job& job) {
  Rows rows = {{"DUE", "OUTCOME", "TASK", "DETAIL"}};
  for (const Firing& firing : job.last_firings()) {
    std::string detail = firing.detail();
    if (firing.more_count() > 0) {
      absl::StrAppend(&detail, detail.empty() ? "" : "; ", "also for ",
                      CountText(firing.more_count()), " before it");
    }
    rows.push_back({InstantText(firing.nominal_at()), OutcomeText(firing.outcome()),
                    firing.queue_id().empty() ? "-" : firing.queue_id(), detail});
  }
  return Columns(rows);
}

// Of a preview: what the time zone does to an occurrence.
std::string MarkText(const v1::PreviewJobResponse::Occurrence& occurrence) {
  const std::string asked = absl::StrReplaceAll(occurrence.asked_wall_time(), {{"T", " "}});
  const std::string more = occurrence.merged_count() == 0
                               ? ""
                               : absl::StrCat(", nor do ", occurrence.merged_count(), " more");
  switch (occurrence.mark()) {
    case Firing::OUTCOME_UNSPECIFIED:
    case Firing::OUTCOME_FIRED:
      return occurrence.merged_count() == 0
                 ? ""
                 : absl::StrCat("wall times of the gap before it without an occurrence: ",
                                occurrence.merged_count());
    case Firing::OUTCOME_DST_GAP_MOVED:
      return absl::StrCat("moved: ", asked, " does not exist", more);
    case Firing::OUTCOME_DST_FOLD_SUPPRESSED:
      return absl::StrCat("suppressed: ", asked, " happens a second time");
    case Firing::OUTCOME_SKIPPED_CALENDAR:
      return absl::StrCat("skipped: the calendar leaves out ", asked, more);
    default:
      return OutcomeText(occurrence.mark());
  }
}

}  // namespace

std::string JobsTable(const v1::ListJobsResponse& jobs) {
  if (jobs.jobs().empty()) return "no jobs\n";
  Rows rows = {{"NAME", "SCHEDULE", "TIME ZONE", "STATE", "LAST", "NEXT"}};
  for (const Job& job : jobs.jobs()) {
    rows.push_back({job.name(), SchedulesText(job), ZoneText(job), StateText(job),
                    OutcomeOfLast(job), NextText(job)});
  }
  return Columns(rows);
}

std::string CheckedText(const std::string& path, const v1::ListJobsResponse& jobs) {
  const int count = jobs.jobs_size();
  return absl::StrCat(path, ": ", count, count == 1 ? " job" : " jobs", ", nothing wrong\n");
}

std::string FileErrorText(const v1::SchedulerStatus& status) {
  if (status.jobs_file_error().empty()) return "";
  return absl::StrCat("\nthe newest version of the jobs file is not in use:\n  ",
                      Plain(status.jobs_file_error()), "\n");
}

std::string JobTable(const Job& job) {
  std::string text = Columns(
      {{"job", job.name()},
       {"state", job.paused() ? PauseText(job) : "active"},
       {"last", LastText(job)},
       {"live",
        job.running_queue_ids().empty() ? "none" : absl::StrJoin(job.running_queue_ids(), ", ")},
       {"prompt", base::JsonQuoted(job.task().prompt())}});
  absl::StrAppend(&text, "\n", Columns(PolicyRows(job)), "\nNEXT\n");
  for (const Timestamp& next : job.next_fires()) absl::StrAppend(&text, InstantText(next), "\n");
  if (job.next_fires().empty()) absl::StrAppend(&text, "none\n");
  if (!job.last_firings().empty()) absl::StrAppend(&text, "\n", FiringsText(job));
  return text;
}

std::string PausedText(const Job& job) {
  return absl::StrCat(job.name(), "  ", PauseText(job), "\n");
}

std::string ResumedText(const v1::ResumeJobResponse& response) {
  const uint64_t skipped = response.skipped_count();
  return absl::StrCat(response.job().name(), "  active, next: ", NextText(response.job()), "\n",
                      skipped == 0 ? "no occurrence" : CountText(skipped), " fell into the pause",
                      skipped == 0 ? "\n" : " and will not run\n");
}

std::string PreviewTable(const v1::PreviewJobRequest& request,
                         const v1::PreviewJobResponse& response) {
  if (response.occurrences().empty()) return "no occurrences\n";
  Rows rows = {{"INSTANT", "WALL TIME", "NOTE"}};
  for (const v1::PreviewJobResponse::Occurrence& occurrence : response.occurrences()) {
    rows.push_back({InstantText(occurrence.at()), occurrence.wall_time(), MarkText(occurrence)});
  }
  std::string text = Columns(rows);
  if (response.occurrences().size() >= request.limit()) {
    const absl::Time after = TimeOf(response.occurrences().rbegin()->at()) + absl::Seconds(1);
    absl::StrAppend(&text, request.limit(), " shown, as --limit says; later ones: --from=",
                    absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", after, absl::UTCTimeZone()), "\n");
  }
  return text;
}

std::string BackfillText(const v1::BackfillJobRequest& request,
                         const v1::BackfillJobResponse& response) {
  const auto& occurrences = response.occurrences();
  if (occurrences.empty()) return "no occurrences: there is nothing to run\n";
  const std::string count = CountText(occurrences.size());
  if (!request.dry_run()) {
    return absl::StrCat(
        "backfill ", response.backfill_id(), "  ", count, ", one per second, ",
        InstantText(*occurrences.begin()), " to ", InstantText(*occurrences.rbegin()),
        "\nto repeat it without running any twice: --backfill_id=", response.backfill_id(), "\n");
  }
  std::string text;
  for (const Timestamp& occurrence : occurrences) {
    absl::StrAppend(&text, InstantText(occurrence), "\n");
  }
  absl::StrAppend(&text, count, "; leave out --dry_run to run, one per second\n");
  return text;
}

}  // namespace callboard::cli
