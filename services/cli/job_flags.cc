#include "services/cli/job_flags.h"

namespace callboard::cli {
namespace {

// A script's empty variable names no job; it must not mean all of them, or the whole queue.
std::string RefuseEmpty(const std::string& name) { return name.empty() ? "it is empty" : ""; }

void AddJob(CLI::App& command, const std::string& help, JobArguments& arguments) {
  command.add_option("job", arguments.job, help)->check(RefuseEmpty);
}

void AddRequiredJob(CLI::App& command, JobArguments& arguments) {
  command.add_option("job", arguments.job, "The job.")->required()->check(RefuseEmpty);
}

void AddSpan(CLI::App& command, JobArguments& arguments) {
  command.add_option("--from", arguments.from, "From then on: RFC 3339, or a date in UTC.");
  command.add_option("--until", arguments.until, "Before then.");
}

void AddPreview(const AddJobCommand& add, JobArguments& arguments) {
  CLI::App& preview = add("preview", "Show when a job, or a schedule that is no job yet, happens.",
                          {"callboard preview nightly",
                           "callboard preview nightly --from=2026-03-29 --until=2026-04-01",
                           "callboard preview --schedule='30 2 * * *' --time_zone=Europe/Berlin",
                           "callboard preview --schedule='0 9 * * MON-FRI' --schedule=@monthly"},
                          PreviewJob);
  AddJob(preview, "The job; a schedule when not given.", arguments);
  preview
      .add_option("--schedule", arguments.schedules,
                  "A schedule that is no job yet; several are a union.")
      ->allow_extra_args(false);
  preview.add_option("--time_zone", arguments.time_zone,
                     "Its time zone, by its IANA name; UTC when not given.");
  preview.add_flag("--seconds", arguments.seconds, "It has a field for seconds.");
  AddSpan(preview, arguments);
  preview.add_option("--limit", arguments.limit, "At most so many.")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void AddPauses(const AddJobCommand& add, JobArguments& arguments) {
  CLI::App& pause = add("pause", "Pause a job; without one, all that the queue starts.",
                        {"callboard pause nightly --why='the disk is full' --until=2026-04-01",
                         "callboard pause --why='upgrading the agents'"},
                        Pause);
  AddJob(pause, "The job; the queue when not given.", arguments);
  pause.add_option("--why", arguments.why, "For those who look at it later.");
  pause.add_option("--until", arguments.until,
                   "The job goes on then: RFC 3339, or a date in UTC; when it is resumed else.");
  CLI::App& resume = add("resume", "Let a job go on; without one, the queue.",
                         {"callboard resume nightly", "callboard resume"}, Resume);
  AddJob(resume, "The job; the queue when not given.", arguments);
}

}  // namespace

void AddJobCommands(const AddJobCommand& add, JobArguments& arguments) {
  CLI::App& jobs =
      add("jobs", "Show the cron jobs, or all about one; or check a jobs file.",
          {"callboard jobs", "callboard jobs nightly", "callboard jobs -o json",
           "callboard jobs --scheduler.address=host:7072", "callboard jobs check scheduler.yaml"},
          ShowJobs);
  AddJob(jobs, "The job; all when not given. `check`, to check a file without a scheduler.",
         arguments);
  jobs.add_option("file", arguments.file, "The jobs file, after `check`.")->check(RefuseEmpty);
  CLI::App& trigger = add("trigger", "Run a job once, now, also while it is paused.",
                          {"callboard trigger nightly", "callboard trigger nightly --force",
                           "callboard trigger nightly --trigger_id=release-7"},
                          TriggerJob);
  AddRequiredJob(trigger, arguments);
  trigger.add_flag("--force", arguments.force, "Also while another task of the job is live.");
  trigger.add_option("--trigger_id", arguments.trigger_id, "Makes it safe to trigger again.");
  AddPreview(add, arguments);
  CLI::App& backfill =
      add("backfill", "Run the occurrences of a time that is past, slowly; or list them.",
          {"callboard backfill nightly --from=2026-03-01 --until=2026-03-08 --dry_run",
           "callboard backfill nightly --from=2026-03-01 --until=2026-03-08"},
          BackfillJob);
  AddRequiredJob(backfill, arguments);
  AddSpan(backfill, arguments);
  for (const char* flag : {"--from", "--until"}) backfill.get_option(flag)->required();
  backfill.add_flag("--dry_run", arguments.dry_run, "List them and run none.");
  backfill.add_option("--backfill_id", arguments.backfill_id, "Makes it safe to ask again.");
  AddPauses(add, arguments);
}

}  // namespace callboard::cli
