#include "services/scheduler/job_messages.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/config/jobs_file.h"
#include "libs/core/job.h"
#include "libs/core/limits.h"
#include "libs/wire/fields.h"
#include "libs/wire/job.h"
#include "libs/wire/page.h"
#include "libs/wire/spec.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"

namespace callboard {
namespace {

constexpr int kPreviewLimitDefault = 10;

v1::Firing::Outcome PreviewMark(core::Occurrence::Kind kind) {
  switch (kind) {
    case core::Occurrence::Kind::kPlain:
      return v1::Firing::OUTCOME_FIRED;
    case core::Occurrence::Kind::kGapMoved:
      return v1::Firing::OUTCOME_DST_GAP_MOVED;
    case core::Occurrence::Kind::kFoldSuppressed:
      return v1::Firing::OUTCOME_DST_FOLD_SUPPRESSED;
    case core::Occurrence::Kind::kSkippedCalendar:
      return v1::Firing::OUTCOME_SKIPPED_CALENDAR;
  }
  return v1::Firing::OUTCOME_UNSPECIFIED;
}

// Writes the declaration of a job.
void WriteJob(const core::Job& job, v1::Job& proto) {
  proto.set_name(job.name);
  for (const std::string& expression : job.text.expressions) proto.add_schedules(expression);
  proto.set_time_zone(job.time_zone.empty() ? "UTC" : job.time_zone);
  proto.set_seconds(job.text.seconds);
  proto.set_overlap(wire::ToProto(wire::kOverlapPolicies, job.overlap));
  proto.set_catch_up(wire::ToProto(wire::kCatchUps, job.catch_up.kind));
  proto.set_catch_up_max(job.catch_up.count);
  if (job.queue_full_wait > absl::ZeroDuration()) {
    *proto.mutable_queue_full_wait() = wire::ToProto(job.queue_full_wait);
  }
  if (job.jitter > absl::ZeroDuration()) *proto.mutable_jitter() = wire::ToProto(job.jitter);
  if (job.start > absl::InfinitePast()) *proto.mutable_start() = wire::ToProto(job.start);
  if (job.end < absl::InfiniteFuture()) *proto.mutable_end() = wire::ToProto(job.end);
  proto.set_max_runs(job.max_runs);
  proto.set_pause_after_failures(job.pause_after_failures);
  proto.set_agent_url(job.agent_url);
  *proto.mutable_task() = wire::DeclaredTask(job);
  proto.mutable_origins()->insert(job.origins.begin(), job.origins.end());
}

// Writes the state of a job.
void WriteState(const scheduler::JobView& view, v1::Job& proto) {
  const scheduler::JobState& state = view.state;
  if (state.pause.has_value()) {
    proto.set_paused(true);
    proto.set_paused_by(state.pause->by);
    proto.set_pause_why(state.pause->why);
    if (state.pause->until < absl::InfiniteFuture()) {
      *proto.mutable_paused_until() = wire::ToProto(state.pause->until);
    }
  }
  // The origin of `paused` is the last one that changed it: the file, an operator, or the
  // scheduler.
  const bool is_from_file = proto.paused() ? proto.paused_by() == "file" : !view.job.paused;
  if (!is_from_file) {
    (*proto.mutable_origins())["paused"] =
        proto.paused_by() == "scheduler" ? "scheduler" : "operator";
  }
  if (state.last_outcome.has_value()) {
    proto.set_last_status(std::string(core::StatusText(*state.last_outcome)));
    *proto.mutable_last_fire_at() = wire::ToProto(state.last_nominal);
  }
  proto.set_last_queue_id(state.last_queue_id);
  proto.mutable_running_queue_ids()->Add(state.tracked_tasks.begin(), state.tracked_tasks.end());
  if (state.last_run_state.has_value()) {
    proto.set_last_run_state(wire::ToProto(wire::kTaskStates, *state.last_run_state));
  }
  if (state.last_run_reason.has_value()) {
    proto.set_last_run_reason(wire::ToProto(wire::kFailureReasons, *state.last_run_reason));
  }
  for (const core::Occurrence& next : view.next) *proto.add_next_fires() = wire::ToProto(next.at);
}

v1::Job MakeJob(const scheduler::JobView& view) {
  v1::Job proto;
  WriteJob(view.job, proto);
  WriteState(view, proto);
  return proto;
}

std::string EncodeCursor(const scheduler::FiringCursor& cursor) {
  return absl::StrCat(absl::ToUnixSeconds(cursor.nominal), "/", cursor.trigger, "/", cursor.job);
}

std::optional<scheduler::FiringCursor> DecodeCursor(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 2));
  int64_t seconds = 0;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &seconds)) return std::nullopt;
  return scheduler::FiringCursor{absl::FromUnixSeconds(seconds), parts[2], parts[1]};
}

}  // namespace

absl::StatusOr<JobsQuery> JobsQueryFrom(const v1::ListJobsRequest& request) {
  wire::FieldChecks checks;
  JobsQuery query = {.after = wire::ReadPageToken(request.page_token(), checks),
                     .page_size = wire::ReadPageSize(request.page_size(), checks)};
  RETURN_IF_ERROR(checks.status());
  return query;
}

scheduler::TriggerQuery TriggerQueryFrom(const v1::TriggerJobRequest& request,
                                         const std::string& generated_id) {
  return {.job = request.name(),
          .id = request.trigger_id().empty() ? generated_id : request.trigger_id(),
          .force = request.force()};
}

absl::StatusOr<scheduler::Pause> PauseFrom(const v1::PauseJobRequest& request,
                                           const std::string& by) {
  wire::FieldChecks checks;
  scheduler::Pause pause = {
      .by = by, .why = wire::ReadText("why", request.why(), core::kErrorBytesMax, checks)};
  pause.until = wire::ReadTime("until", request.has_until(), request.until(), checks)
                    .value_or(absl::InfiniteFuture());
  RETURN_IF_ERROR(checks.status());
  return pause;
}

absl::StatusOr<scheduler::PreviewQuery> PreviewQueryFrom(const v1::PreviewJobRequest& request,
                                                         absl::Time now) {
  wire::FieldChecks checks;
  if (request.name().empty() == request.schedules().empty()) {
    checks.AddViolation("name", "or schedules is required, and not both");
  }
  if (request.limit() < 0 || request.limit() > core::kPreviewMax) {
    checks.AddViolation("limit", absl::StrCat("is not between 0 and ", core::kPreviewMax));
  }
  scheduler::PreviewQuery query = {.job = request.name()};
  query.from = wire::ReadTime("from", request.has_from(), request.from(), checks).value_or(now);
  query.until = wire::ReadTime("until", request.has_until(), request.until(), checks)
                    .value_or(absl::InfiniteFuture());
  if (query.until < query.from) checks.AddViolation("until", "is before from");
  query.limit = static_cast<size_t>(request.limit() == 0 ? kPreviewLimitDefault : request.limit());
  RETURN_IF_ERROR(checks.status());
  return query;
}

absl::StatusOr<scheduler::BackfillQuery> BackfillQueryFrom(const v1::BackfillJobRequest& request,
                                                           const std::string& generated_id,
                                                           const std::string& by) {
  wire::FieldChecks checks;
  if (!request.has_from()) checks.AddViolation("from", "is required");
  if (!request.has_until()) checks.AddViolation("until", "is required");
  scheduler::BackfillQuery query = {
      .job = request.name(),
      .id = request.backfill_id().empty() ? generated_id : request.backfill_id(),
      .by = by,
      .from =
          wire::ReadTime("from", request.has_from(), request.from(), checks).value_or(absl::Time()),
      .until = wire::ReadTime("until", request.has_until(), request.until(), checks)
                   .value_or(absl::Time()),
      .dry_run = request.dry_run()};
  if (request.has_from() && request.has_until() && query.until < query.from) {
    checks.AddViolation("until", "is before from");
  }
  RETURN_IF_ERROR(checks.status());
  return query;
}

absl::StatusOr<scheduler::FiringQuery> FiringQueryFrom(const v1::ListFiringsRequest& request) {
  wire::FieldChecks checks;
  scheduler::FiringQuery query = {.job = request.name(),
                                  .page_size = wire::ReadPageSize(request.page_size(), checks)};
  for (const int number : request.outcomes()) {
    const auto outcome = wire::ReadEnum("outcomes", kFiringOutcomes,
                                        static_cast<v1::Firing::Outcome>(number), checks);
    if (!outcome.has_value())
      checks.AddViolation("outcomes", "has an entry that is not a known outcome");
    query.outcomes.push_back(outcome.value_or(core::FiringOutcome::kFired));
  }
  if (!request.page_token().empty()) {
    query.after = DecodeCursor(wire::DecodePageToken(request.page_token()).value_or(""));
    if (!query.after.has_value()) wire::AddPageTokenViolation(checks);
  }
  RETURN_IF_ERROR(checks.status());
  return query;
}

absl::StatusOr<scheduler::Preview> PreviewSchedules(const v1::PreviewJobRequest& request,
                                                    const scheduler::PreviewQuery& query) {
  const absl::StatusOr<absl::TimeZone> zone = config::LoadZone(request.time_zone());
  if (!zone.ok()) return base::InvalidField("time_zone", zone.status().message());
  core::Job job;
  job.text = {.expressions = {request.schedules().begin(), request.schedules().end()},
              .seconds = request.seconds()};
  absl::StatusOr<core::Schedule> schedule = core::Schedule::Parse(job.text, *zone);
  if (!schedule.ok()) return base::InvalidField("schedules", schedule.status().message());
  job.schedule = *std::move(schedule);
  return scheduler::Preview{request.time_zone(),
                            core::ListOccurrences(job, query.from, query.until, query.limit)};
}

v1::Job ToProto(const scheduler::JobView& view) {
  v1::Job proto = MakeJob(view);
  wire::ReduceToListView(*proto.mutable_task());
  return proto;
}

v1::Job ToProto(const scheduler::JobDetail& detail) {
  v1::Job proto = MakeJob(detail.view);
  wire::ReduceToBasicView(*proto.mutable_task());
  for (const core::Firing& firing : detail.last_firings)
    *proto.add_last_firings() = ToProto(firing);
  return proto;
}

v1::Firing ToProto(const core::Firing& firing) {
  v1::Firing proto;
  proto.set_job(firing.job);
  *proto.mutable_nominal_at() = wire::ToProto(firing.nominal);
  proto.set_outcome(wire::ToProto(kFiringOutcomes, firing.outcome));
  *proto.mutable_decided_at() = wire::ToProto(firing.decided_at);
  proto.set_queue_id(firing.queue_id);
  proto.set_request_id(firing.request_id);
  proto.set_detail(firing.detail);
  proto.set_more_count(firing.more);
  return proto;
}

absl::StatusOr<v1::PreviewJobResponse> ToProto(const scheduler::Preview& preview) {
  ASSIGN_OR_RETURN(const absl::TimeZone zone, config::LoadZone(preview.time_zone));
  v1::PreviewJobResponse response;
  for (const core::Occurrence& occurrence : preview.occurrences) {
    v1::PreviewJobResponse::Occurrence& proto = *response.add_occurrences();
    *proto.mutable_at() = wire::ToProto(occurrence.at);
    proto.set_wall_time(absl::FormatTime(absl::RFC3339_sec, occurrence.at, zone));
    proto.set_mark(PreviewMark(occurrence.kind));
    proto.set_asked_wall_time(absl::FormatCivilTime(occurrence.wall));
    proto.set_merged_count(static_cast<uint32_t>(occurrence.merged));
  }
  return response;
}

v1::BackfillJobResponse ToProto(const scheduler::Backfill& backfill) {
  v1::BackfillJobResponse response;
  response.set_backfill_id(backfill.id);
  for (const absl::Time at : backfill.occurrences) {
    *response.add_occurrences() = wire::ToProto(at);
  }
  return response;
}

v1::ListJobsResponse ListResponse(const scheduler::JobPage& page) {
  v1::ListJobsResponse response;
  wire::PageBytes bytes;
  for (const scheduler::JobView& view : page.jobs) {
    v1::Job proto = ToProto(view);
    if (!bytes.Add(proto)) {
      response.set_next_page_token(wire::EncodePageToken(response.jobs().rbegin()->name()));
      return response;
    }
    *response.add_jobs() = std::move(proto);
  }
  if (page.next.has_value()) response.set_next_page_token(wire::EncodePageToken(*page.next));
  return response;
}

v1::ListFiringsResponse ListResponse(const scheduler::FiringPage& page) {
  v1::ListFiringsResponse response;
  wire::PageBytes bytes;
  const core::Firing* last = nullptr;
  for (const core::Firing& firing : page.firings) {
    v1::Firing proto = ToProto(firing);
    if (!bytes.Add(proto)) {
      response.set_next_page_token(
          wire::EncodePageToken(EncodeCursor({last->nominal, last->job, last->trigger})));
      return response;
    }
    *response.add_firings() = std::move(proto);
    last = &firing;
  }
  if (page.next.has_value())
    response.set_next_page_token(wire::EncodePageToken(EncodeCursor(*page.next)));
  return response;
}

}  // namespace callboard
