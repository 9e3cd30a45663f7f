#include "services/cli/job_commands.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/adapters/jobs_file/jobs_file.h"
#include "libs/adapters/system_random/system_random.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/core/job.h"
#include "libs/ports/random.h"
#include "services/cli/answer_text.h"
#include "services/cli/exit_code.h"
#include "services/cli/job_tables.h"
#include "services/cli/peer_call.h"
#include "services/cli/queue_status.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using SchedulerStub = v1::SchedulerService::Stub;

constexpr int kPageSize = 1000;

std::string MadeUpId() {
  adapters::SystemRandom random;
  return ports::NewName(random);
}

// `error` with `advice` behind its message; code and details stay.
absl::Status WithAdvice(const absl::Status& error, const std::string& advice) {
  absl::Status advised(error.code(), absl::StrCat(error.message(), "; ", advice));
  error.ForEachPayload([&advised](absl::string_view url, const absl::Cord& payload) {
    advised.SetPayload(url, payload);
  });
  return advised;
}

// Of a call that may have done its work although nobody said so: how to ask again. `repeat` is the
// flag that makes it the same call.
absl::Status WithRepeat(const absl::Status& error, const std::string& repeat) {
  if (!absl::IsUnavailable(error) && !absl::IsDeadlineExceeded(error)) return error;
  return WithAdvice(error, absl::StrCat("repeat it with ", repeat, ", and it runs once"));
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
  return Written(config, all, JobsTable(all) + FileErrorText(status));
}

absl::StatusOr<std::string> CheckFile(const CliConfig& config, const std::string& path) {
  const absl::StatusOr<std::vector<core::Job>> jobs = adapters::ReadJobsFile(path);
  if (!jobs.ok()) return UsageError(jobs.status().message());
  v1::ListJobsResponse listed;
  for (const core::Job& job : *jobs) {
    v1::Job& proto = *listed.add_jobs();
    proto.set_name(job.name);
    proto.mutable_schedules()->Add(job.text.expressions.begin(), job.text.expressions.end());
    proto.set_time_zone(job.time_zone.empty() ? "UTC" : job.time_zone);
  }
  return Written(config, listed, CheckedText(path, listed));
}

}  // namespace

absl::StatusOr<std::string> ShowJobs(const CliConfig& config, const JobArguments& arguments) {
  if (!arguments.file.empty()) {
    if (arguments.job == "check") return CheckFile(config, arguments.file);
    return UsageError("jobs takes one name; or `check` and a file");
  }
  if (arguments.job.empty()) return ListAllJobs(config);
  v1::GetJobRequest request;
  request.set_name(arguments.job);
  ASSIGN_OR_RETURN(const v1::Job job, CallScheduler(config, &SchedulerStub::GetJob, request));
  return Written(config, job, JobTable(job));
}

absl::StatusOr<std::string> TriggerJob(const CliConfig& config, const JobArguments& arguments) {
  const v1::TriggerJobRequest request = TriggerRequest(arguments, MadeUpId());
  const absl::StatusOr<v1::TriggerJobResponse> response =
      CallScheduler(config, &SchedulerStub::TriggerJob, request);
  if (base::DetailsOf(response.status()).reason == "OVERLAP") {
    return WithAdvice(response.status(), "--force runs it all the same");
  }
  if (!response.ok()) {
    return WithRepeat(response.status(), absl::StrCat("--trigger_id=", request.trigger_id()));
  }
  return Written(config, *response,
                 absl::StrCat(response->queue_id(),
                              response->deduplicated() ? "  triggered before" : "", "\n"));
}

absl::StatusOr<std::string> PreviewJob(const CliConfig& config, const JobArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::PreviewJobRequest request, PreviewRequest(arguments));
  ASSIGN_OR_RETURN(const v1::PreviewJobResponse response,
                   CallScheduler(config, &SchedulerStub::PreviewJob, request));
  return Written(config, response, PreviewTable(request, response));
}

absl::StatusOr<std::string> BackfillJob(const CliConfig& config, const JobArguments& arguments) {
  ASSIGN_OR_RETURN(const v1::BackfillJobRequest request, BackfillRequest(arguments, MadeUpId()));
  const absl::StatusOr<v1::BackfillJobResponse> response =
      CallScheduler(config, &SchedulerStub::BackfillJob, request);
  if (!response.ok() && request.dry_run()) return response.status();
  if (!response.ok()) {
    return WithRepeat(response.status(), absl::StrCat("--backfill_id=", request.backfill_id()));
  }
  return Written(config, *response, BackfillText(request, *response));
}

absl::StatusOr<std::string> Pause(const CliConfig& config, const JobArguments& arguments) {
  if (arguments.job.empty()) {
    if (arguments.until.empty()) return PauseQueue(config, arguments.why);
    return UsageError("--until: needs a job; the queue is paused until `callboard resume`");
  }
  ASSIGN_OR_RETURN(const v1::PauseJobRequest request, PauseRequest(arguments));
  ASSIGN_OR_RETURN(const v1::Job job, CallScheduler(config, &SchedulerStub::PauseJob, request));
  return Written(config, job, PausedText(job));
}

absl::StatusOr<std::string> Resume(const CliConfig& config, const JobArguments& arguments) {
  if (arguments.job.empty()) return ResumeQueue(config);
  v1::ResumeJobRequest request;
  request.set_name(arguments.job);
  ASSIGN_OR_RETURN(const v1::ResumeJobResponse response,
                   CallScheduler(config, &SchedulerStub::ResumeJob, request));
  return Written(config, response, ResumedText(response));
}

}  // namespace callboard::cli
