#include "services/cli/job_commands.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/config/jobs_file.h"
#include "libs/core/job.h"
#include "libs/ports/environment.h"
#include "libs/system/system.h"
#include "libs/wire/enums.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"
#include "services/cli/director_client.h"
#include "services/cli/task_commands.h"

namespace callboard::cli {

// ---- Requests -----------------------------------------------------------------------------------

namespace {

using config::v1::CliConfig;
using google::protobuf::Timestamp;
using v1::Firing;
using v1::Job;
using SchedulerStub = v1::SchedulerService::Stub;
using Rows = std::vector<std::vector<std::string>>;

// Sets the time range of a preview or a backfill, as far as it was given.
template <class Request>
absl::Status SetTimeRange(const JobArguments& arguments, Request& request) {
  absl::Time from = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
  if (!arguments.from.empty()) {
    ASSIGN_OR_RETURN(from, ParseInstant("--from", arguments.from));
    *request.mutable_from() = wire::ToProto(from);
  }
  if (!arguments.until.empty()) {
    ASSIGN_OR_RETURN(until, ParseInstant("--until", arguments.until));
    *request.mutable_until() = wire::ToProto(until);
  }
  if (from >= until) return UsageError("--until: must be later than --from");
  return absl::OkStatus();
}

absl::Status CheckPreview(const JobArguments& arguments) {
  if (arguments.job.empty() && arguments.schedules.empty()) {
    return UsageError("name a job, or give a schedule: --schedule='30 2 * * *'");
  }
  if (arguments.job.empty()) return absl::OkStatus();
  if (!arguments.schedules.empty()) {
    return UsageError("a job has its own schedule: leave out the job, or --schedule");
  }
  if (!arguments.time_zone.empty() || arguments.seconds) {
    return UsageError("--time_zone and --seconds need --schedule: a job has its own");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::Time> ParseInstant(absl::string_view flag, const std::string& text) {
  absl::Time time;
  std::string problem;
  for (const char* format : {absl::RFC3339_full, "%Y-%m-%d"}) {
    // The conversion fails for values that ParseTime() accepts beyond the format: `infinite-future`
    // and years out of range.
    if (absl::ParseTime(format, text, &time, &problem) && wire::FromProto(wire::ToProto(time))) {
      return time;
    }
  }
  return UsageError(absl::StrCat(flag, ": '", text,
                                 "' is not valid; expected: 2026-03-29T02:30:00Z or 2026-03-29"));
}

absl::StatusOr<v1::PreviewJobRequest> PreviewRequest(const JobArguments& arguments) {
  RETURN_IF_ERROR(CheckPreview(arguments));
  v1::PreviewJobRequest request;
  request.set_name(arguments.job);
  for (const std::string& schedule : arguments.schedules) request.add_schedules(schedule);
  request.set_time_zone(arguments.time_zone);
  request.set_seconds(arguments.seconds);
  request.set_limit(arguments.limit);
  RETURN_IF_ERROR(SetTimeRange(arguments, request));
  return request;
}

absl::StatusOr<v1::PauseJobRequest> PauseRequest(const JobArguments& arguments) {
  v1::PauseJobRequest request;
  request.set_name(arguments.job);
  request.set_why(arguments.why);
  if (!arguments.until.empty()) {
    ASSIGN_OR_RETURN(const absl::Time until, ParseInstant("--until", arguments.until));
    *request.mutable_until() = wire::ToProto(until);
  }
  return request;
}

v1::TriggerJobRequest TriggerRequest(const JobArguments& arguments,
                                     const std::string& generated_id) {
  v1::TriggerJobRequest request;
  request.set_name(arguments.job);
  request.set_trigger_id(arguments.trigger_id.empty() ? generated_id : arguments.trigger_id);
  request.set_force(arguments.force);
  return request;
}

absl::StatusOr<v1::BackfillJobRequest> BackfillRequest(const JobArguments& arguments,
                                                       const std::string& generated_id) {
  v1::BackfillJobRequest request;
  request.set_name(arguments.job);
  request.set_backfill_id(arguments.backfill_id.empty() ? generated_id : arguments.backfill_id);
  request.set_dry_run(arguments.dry_run);
  RETURN_IF_ERROR(SetTimeRange(arguments, request));
  return request;
}

// ---- Commands -----------------------------------------------------------------------------------

namespace {

constexpr int kPageSize = 1000;

std::string GenerateId() {
  system::SystemRandom random;
  return ports::NewName(random);
}

// Adds advice to the error of a call that may have succeeded although no answer arrived. `flag`
// makes the retry the same call, so that it cannot run twice.
absl::Status WithRetryAdvice(const absl::Status& error, const std::string& flag) {
  if (!absl::IsUnavailable(error) && !absl::IsDeadlineExceeded(error)) return error;
  return base::WithAdvice(error, absl::StrCat("retry with ", flag, ", and it runs only once"));
}

// Returns that the jobs file is valid, and its number of jobs.
std::string ValidFileText(const std::string& path, const v1::ListJobsResponse& jobs) {
  const int count = jobs.jobs_size();
  return absl::StrCat(path, ": ", count, count == 1 ? " job" : " jobs", ", no errors\n");
}

// Returns the error in the newest version of the jobs file; empty if there is none.
std::string FileErrorText(const v1::SchedulerStatus& status) {
  if (status.jobs_file_error().empty()) return "";
  return absl::StrCat("\nthe newest version of the jobs file is not in use:\n  ",
                      base::Escaped(status.jobs_file_error()), "\n");
}

absl::StatusOr<std::string> ListAllJobs(const CliConfig& config) {
  v1::ListJobsResponse all;
  v1::ListJobsRequest request;
  request.set_page_size(kPageSize);
  do {
    ASSIGN_OR_RETURN(const v1::ListJobsResponse page,
                     CallScheduler(config, &SchedulerStub::ListJobs, request));
    all.mutable_jobs()->MergeFrom(page.jobs());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  ASSIGN_OR_RETURN(
      const v1::SchedulerStatus status,
      CallScheduler(config, &SchedulerStub::GetSchedulerStatus, v1::GetSchedulerStatusRequest()));
  return FormatAnswer(config, all, JobsTable(all) + FileErrorText(status));
}

absl::StatusOr<std::string> CheckFile(const CliConfig& config, const std::string& path) {
  const absl::StatusOr<std::vector<core::Job>> jobs = config::ReadJobsFile(path);
  if (!jobs.ok()) return UsageError(jobs.status().message());
  v1::ListJobsResponse listed;
  for (const core::Job& job : *jobs) {
    v1::Job& proto = *listed.add_jobs();
    proto.set_name(job.name);
    proto.mutable_schedules()->Add(job.text.expressions.begin(), job.text.expressions.end());
    proto.set_time_zone(job.time_zone.empty() ? "UTC" : job.time_zone);
  }
  return FormatAnswer(config, listed, ValidFileText(path, listed));
}

}  // namespace

absl::StatusOr<std::string> ShowJobs(const CliConfig& config, const JobArguments& arguments) {
  if (!arguments.file.empty()) {
    if (arguments.job == "check") return CheckFile(config, arguments.file);
    return UsageError("jobs takes one name, or `check` and a file");
  }
  if (arguments.job.empty()) return ListAllJobs(config);
  v1::GetJobRequest request;
  request.set_name(arguments.job);
  ASSIGN_OR_RETURN(const v1::Job job, CallScheduler(config, &SchedulerStub::GetJob, request));
  return FormatAnswer(config, job, JobTable(job));
}

absl::StatusOr<std::string> TriggerJob(const CliConfig& config, const JobArguments& arguments) {
  const v1::TriggerJobRequest request = TriggerRequest(arguments, GenerateId());
  const absl::StatusOr<v1::TriggerJobResponse> response =
      CallScheduler(config, &SchedulerStub::TriggerJob, request);
  if (base::GetErrorDetails(response.status()).reason == "OVERLAP") {
    return base::WithAdvice(response.status(), "--force runs it anyway");
  }
  if (!response.ok()) {
    return WithRetryAdvice(response.status(), absl::StrCat("--trigger_id=", request.trigger_id()));
  }
  return FormatAnswer(config, *response,
                      absl::StrCat(response->queue_id(),
                                   response->deduplicated() ? "  already triggered" : "", "\n"));
}

absl::StatusOr<std::string> PreviewJob(const CliConfig& config, const JobArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::PreviewJobRequest request, PreviewRequest(arguments));
  ASSIGN_OR_RETURN(const v1::PreviewJobResponse response,
                   CallScheduler(config, &SchedulerStub::PreviewJob, request));
  return FormatAnswer(config, response, PreviewTable(request, response));
}

absl::StatusOr<std::string> BackfillJob(const CliConfig& config, const JobArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::BackfillJobRequest request, BackfillRequest(arguments, GenerateId()));
  const absl::StatusOr<v1::BackfillJobResponse> response =
      CallScheduler(config, &SchedulerStub::BackfillJob, request);
  if (!response.ok() && request.dry_run()) return response.status();
  if (!response.ok()) {
    return WithRetryAdvice(response.status(),
                           absl::StrCat("--backfill_id=", request.backfill_id()));
  }
  return FormatAnswer(config, *response, BackfillText(request, *response));
}

absl::StatusOr<std::string> Pause(const CliConfig& config, const JobArguments& arguments) {
  if (arguments.job.empty()) {
    if (arguments.until.empty()) return PauseQueue(config, arguments.why);
    return UsageError("--until: needs a job; the queue is paused until `callboard resume`");
  }
  ASSIGN_OR_RETURN(const v1::PauseJobRequest request, PauseRequest(arguments));
  ASSIGN_OR_RETURN(const v1::Job job, CallScheduler(config, &SchedulerStub::PauseJob, request));
  return FormatAnswer(config, job, PausedText(job));
}

absl::StatusOr<std::string> Resume(const CliConfig& config, const JobArguments& arguments) {
  if (arguments.job.empty()) return ResumeQueue(config);
  v1::ResumeJobRequest request;
  request.set_name(arguments.job);
  ASSIGN_OR_RETURN(const v1::ResumeJobResponse response,
                   CallScheduler(config, &SchedulerStub::ResumeJob, request));
  return FormatAnswer(config, response, ResumedText(response));
}

// ---- Commands of the command line ---------------------------------------------------------------

namespace {

// A validator of CLI11 that rejects an empty name. An unset variable of a script must not mean all
// jobs, or the whole queue.
std::string CheckNotEmpty(const std::string& name) { return name.empty() ? "it is empty" : ""; }

void AddJob(CLI::App& command, const std::string& help, JobArguments& arguments) {
  command.add_option("job", arguments.job, help)->check(CheckNotEmpty);
}

void AddRequiredJob(CLI::App& command, JobArguments& arguments) {
  command.add_option("job", arguments.job, "The job.")->required()->check(CheckNotEmpty);
}

void AddTimeRange(CLI::App& command, JobArguments& arguments) {
  command.add_option("--from", arguments.from, "Start of the range: RFC 3339, or a date in UTC.");
  command.add_option("--until", arguments.until, "End of the range (exclusive), in the same form.");
}

void AddPreview(const AddJobCommand& add, JobArguments& arguments) {
  CLI::App& preview =
      add("preview", "Show the occurrences of a job, or of a schedule that is not a job yet.",
          {"callboard preview nightly",
           "callboard preview nightly --from=2026-03-29 --until=2026-04-01",
           "callboard preview --schedule='30 2 * * *' --time_zone=Europe/Berlin",
           "callboard preview --schedule='0 9 * * MON-FRI' --schedule=@monthly"},
          PreviewJob);
  AddJob(preview, "The job; or use --schedule.", arguments);
  preview
      .add_option("--schedule", arguments.schedules,
                  "A schedule that is not a job yet; several are combined.")
      ->allow_extra_args(false);
  preview.add_option("--time_zone", arguments.time_zone,
                     "Its time zone, by its IANA name; default: UTC.");
  preview.add_flag("--seconds", arguments.seconds, "The schedule has a field for seconds.");
  AddTimeRange(preview, arguments);
  preview.add_option("--limit", arguments.limit, "Largest number of occurrences.")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void AddPauses(const AddJobCommand& add, JobArguments& arguments) {
  CLI::App& pause = add("pause", "Pause a job; without a job, pause all dispatching of the queue.",
                        {"callboard pause nightly --why='the disk is full' --until=2026-04-01",
                         "callboard pause --why='upgrading the agents'"},
                        Pause);
  AddJob(pause, "The job; default: the queue.", arguments);
  pause.add_option("--why", arguments.why, "Reason, shown with the pause.");
  pause.add_option("--until", arguments.until,
                   "Time at which the job resumes by itself: RFC 3339, or a date in UTC.");
  CLI::App& resume = add("resume", "Resume a job; without a job, resume the queue.",
                         {"callboard resume nightly", "callboard resume"}, Resume);
  AddJob(resume, "The job; default: the queue.", arguments);
}

}  // namespace

void AddJobCommands(const AddJobCommand& add, JobArguments& arguments) {
  CLI::App& jobs =
      add("jobs", "Show the cron jobs, or one in detail; or check a jobs file.",
          {"callboard jobs", "callboard jobs nightly", "callboard jobs -o json",
           "callboard jobs --scheduler.address=host:7072", "callboard jobs check scheduler.yaml"},
          ShowJobs);
  AddJob(jobs, "The job; default: all jobs. `check` checks a file without a scheduler.", arguments);
  jobs.add_option("file", arguments.file, "The jobs file, after `check`.")->check(CheckNotEmpty);
  CLI::App& trigger = add("trigger", "Run a job once, now, even while it is paused.",
                          {"callboard trigger nightly", "callboard trigger nightly --force",
                           "callboard trigger nightly --trigger_id=release-7"},
                          TriggerJob);
  AddRequiredJob(trigger, arguments);
  trigger.add_flag("--force", arguments.force,
                   "Run it even while another task of the job is live.");
  trigger.add_option("--trigger_id", arguments.trigger_id,
                     "Idempotency key; generated if omitted.");
  AddPreview(add, arguments);
  CLI::App& backfill =
      add("backfill", "Run the occurrences of a past time range, one per second; or list them.",
          {"callboard backfill nightly --from=2026-03-01 --until=2026-03-08 --dry_run",
           "callboard backfill nightly --from=2026-03-01 --until=2026-03-08"},
          BackfillJob);
  AddRequiredJob(backfill, arguments);
  AddTimeRange(backfill, arguments);
  for (const char* flag : {"--from", "--until"}) backfill.get_option(flag)->required();
  backfill.add_flag("--dry_run", arguments.dry_run, "List them and run none.");
  backfill.add_option("--backfill_id", arguments.backfill_id,
                      "Idempotency key; generated if omitted.");
  AddPauses(add, arguments);
}

// ---- Text for people ----------------------------------------------------------------------------

namespace {

// Shows fractions of a second only where there are any: schedules have none.
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

// Returns who paused the job, until when and why, as far as that is known.
std::string PauseText(const Job& job) {
  std::string text = "paused";
  if (!job.paused_by().empty()) absl::StrAppend(&text, " by ", job.paused_by());
  absl::StrAppend(&text, " until ",
                  job.has_paused_until() ? InstantText(job.paused_until()) : "it is resumed");
  if (!job.pause_why().empty()) absl::StrAppend(&text, ": ", job.pause_why());
  return base::Escaped(text);
}

// Returns how the last run ended: `failed (EXEC_FAILED)`; empty before the first one has ended.
std::string RunText(const Job& job) {
  if (job.last_run_state() == v1::Task::STATE_UNSPECIFIED) return "";
  std::string text = wire::EnumText(*v1::Task::State_descriptor(), job.last_run_state());
  if (job.last_run_reason() != v1::Task::REASON_UNSPECIFIED) {
    absl::StrAppend(&text, " (",
                    wire::EnumText(*v1::Task::Reason_descriptor(), job.last_run_reason()), ")");
  }
  return text;
}

// Returns the outcome of the last occurrence. If it submitted a task, that is the state of the
// task.
std::string LastOutcomeText(const Job& job) {
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
  std::string text = LastOutcomeText(job);
  if (job.has_last_fire_at()) absl::StrAppend(&text, ", ", InstantText(job.last_fire_at()));
  if (!job.last_queue_id().empty()) absl::StrAppend(&text, ", last task ", job.last_queue_id());
  return text;
}

std::string CatchUpText(const Job& job) {
  if (job.catch_up() == Job::CATCH_UP_ALL) return absl::StrCat("all: ", job.catch_up_max());
  return wire::EnumText(*Job::CatchUp_descriptor(), job.catch_up());
}

// Returns the settings in force, named as in the jobs file, and the origin of each.
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
  return FormatColumns(rows);
}

// Returns a note on the effect of the time zone on an occurrence of a preview.
std::string TimeZoneNote(const v1::PreviewJobResponse::Occurrence& occurrence) {
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
                    LastOutcomeText(job), NextText(job)});
  }
  return FormatColumns(rows);
}

std::string JobTable(const Job& job) {
  std::string text = FormatColumns(
      {{"job", job.name()},
       {"state", job.paused() ? PauseText(job) : "active"},
       {"last", LastText(job)},
       {"live",
        job.running_queue_ids().empty() ? "none" : absl::StrJoin(job.running_queue_ids(), ", ")},
       {"prompt", base::JsonQuoted(job.task().prompt())}});
  absl::StrAppend(&text, "\n", FormatColumns(PolicyRows(job)), "\nNEXT\n");
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
                      skipped == 0 ? "no occurrence" : CountText(skipped),
                      skipped <= 1 ? " was" : " were", " due during the pause",
                      skipped == 0 ? "\n" : " and will not run\n");
}

std::string PreviewTable(const v1::PreviewJobRequest& request,
                         const v1::PreviewJobResponse& response) {
  if (response.occurrences().empty()) return "no occurrences\n";
  Rows rows = {{"UTC TIME", "WALL TIME", "NOTE"}};
  for (const v1::PreviewJobResponse::Occurrence& occurrence : response.occurrences()) {
    rows.push_back(
        {InstantText(occurrence.at()), occurrence.wall_time(), TimeZoneNote(occurrence)});
  }
  std::string text = FormatColumns(rows);
  if (response.occurrences().size() >= request.limit()) {
    const absl::Time after = TimeOf(response.occurrences().rbegin()->at()) + absl::Seconds(1);
    absl::StrAppend(&text, request.limit(), " shown (--limit); for later ones: --from=",
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
