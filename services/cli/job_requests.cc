#include "services/cli/job_requests.h"

#include "absl/strings/str_cat.h"
#include "libs/base/status_macros.h"
#include "libs/wire/time.h"
#include "services/cli/exit_code.h"

namespace callboard::cli {
namespace {

// The span of a preview or a backfill, as far as it was given.
template <class Request>
absl::Status SetSpan(const JobArguments& arguments, Request& request) {
  absl::Time from = absl::InfinitePast();
  absl::Time until = absl::InfiniteFuture();
  if (!arguments.from.empty()) {
    ASSIGN_OR_RETURN(from, InstantFrom("--from", arguments.from));
    *request.mutable_from() = wire::ToProto(from);
  }
  if (!arguments.until.empty()) {
    ASSIGN_OR_RETURN(until, InstantFrom("--until", arguments.until));
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
    return UsageError("a job has its schedule: leave out the job, or --schedule");
  }
  if (!arguments.time_zone.empty() || arguments.seconds) {
    return UsageError("--time_zone and --seconds go with --schedule: a job has its own");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<absl::Time> InstantFrom(absl::string_view flag, const std::string& text) {
  absl::Time time;
  std::string problem;
  for (const char* format : {absl::RFC3339_full, "%Y-%m-%d"}) {
    // Refuses what ParseTime() takes beyond the format: `infinite-future`, and far years.
    if (absl::ParseTime(format, text, &time, &problem) && wire::FromProto(wire::ToProto(time))) {
      return time;
    }
  }
  return UsageError(absl::StrCat(flag, ": '", text,
                                 "' is not valid; wanted: 2026-03-29T02:30:00Z or 2026-03-29"));
}

absl::StatusOr<v1::PreviewJobRequest> PreviewRequest(const JobArguments& arguments) {
  RETURN_IF_ERROR(CheckPreview(arguments));
  v1::PreviewJobRequest request;
  request.set_name(arguments.job);
  for (const std::string& schedule : arguments.schedules) request.add_schedules(schedule);
  request.set_time_zone(arguments.time_zone);
  request.set_seconds(arguments.seconds);
  request.set_limit(arguments.limit);
  RETURN_IF_ERROR(SetSpan(arguments, request));
  return request;
}

absl::StatusOr<v1::PauseJobRequest> PauseRequest(const JobArguments& arguments) {
  v1::PauseJobRequest request;
  request.set_name(arguments.job);
  request.set_why(arguments.why);
  if (!arguments.until.empty()) {
    ASSIGN_OR_RETURN(const absl::Time until, InstantFrom("--until", arguments.until));
    *request.mutable_until() = wire::ToProto(until);
  }
  return request;
}

v1::TriggerJobRequest TriggerRequest(const JobArguments& arguments, const std::string& made_up_id) {
  v1::TriggerJobRequest request;
  request.set_name(arguments.job);
  request.set_trigger_id(arguments.trigger_id.empty() ? made_up_id : arguments.trigger_id);
  request.set_force(arguments.force);
  return request;
}

absl::StatusOr<v1::BackfillJobRequest> BackfillRequest(const JobArguments& arguments,
                                                       const std::string& made_up_id) {
  v1::BackfillJobRequest request;
  request.set_name(arguments.job);
  request.set_backfill_id(arguments.backfill_id.empty() ? made_up_id : arguments.backfill_id);
  request.set_dry_run(arguments.dry_run);
  RETURN_IF_ERROR(SetSpan(arguments, request));
  return request;
}

}  // namespace callboard::cli
