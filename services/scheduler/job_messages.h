// Conversions between messages of callboard.v1 and the types of libs/scheduler.
#ifndef CALLBOARD_SERVICES_SCHEDULER_JOB_MESSAGES_H_
#define CALLBOARD_SERVICES_SCHEDULER_JOB_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/scheduler.pb.h"
#include "libs/core/job.h"
#include "libs/core/schedule.h"
#include "libs/scheduler/driver.h"
#include "libs/wire/enums.h"

namespace callboard {

inline constexpr wire::EnumPair<core::FiringOutcome, v1::Firing::Outcome> kFiringOutcomes[] = {
    {core::FiringOutcome::kFired, v1::Firing::OUTCOME_FIRED},
    {core::FiringOutcome::kSkippedOverlap, v1::Firing::OUTCOME_SKIPPED_OVERLAP},
    {core::FiringOutcome::kSkippedQueueFull, v1::Firing::OUTCOME_SKIPPED_QUEUE_FULL},
    {core::FiringOutcome::kSkippedDirectorDown, v1::Firing::OUTCOME_SKIPPED_DIRECTOR_DOWN},
    {core::FiringOutcome::kCoalesced, v1::Firing::OUTCOME_COALESCED},
    {core::FiringOutcome::kMissedWindow, v1::Firing::OUTCOME_MISSED_WINDOW},
    {core::FiringOutcome::kPaused, v1::Firing::OUTCOME_PAUSED},
    {core::FiringOutcome::kDstGapMoved, v1::Firing::OUTCOME_DST_GAP_MOVED},
    {core::FiringOutcome::kDstFoldSuppressed, v1::Firing::OUTCOME_DST_FOLD_SUPPRESSED},
    {core::FiringOutcome::kSkippedCalendar, v1::Firing::OUTCOME_SKIPPED_CALENDAR},
    {core::FiringOutcome::kRejected, v1::Firing::OUTCOME_REFUSED},
};

// The ...From() functions parse a request. If it is invalid, they return INVALID_ARGUMENT, which
// names every invalid field. `generated_id` is used if the request has no id. `now` is the time of
// the call.
struct JobsQuery {
  std::string after = {};
  size_t page_size = 0;
};
absl::StatusOr<JobsQuery> JobsQueryFrom(const v1::ListJobsRequest& request);
scheduler::TriggerQuery TriggerQueryFrom(const v1::TriggerJobRequest& request,
                                         const std::string& generated_id);
absl::StatusOr<scheduler::Pause> PauseFrom(const v1::PauseJobRequest& request,
                                           const std::string& by);
absl::StatusOr<scheduler::PreviewQuery> PreviewQueryFrom(const v1::PreviewJobRequest& request,
                                                         absl::Time now);
absl::StatusOr<scheduler::BackfillQuery> BackfillQueryFrom(const v1::BackfillJobRequest& request,
                                                           const std::string& generated_id,
                                                           const std::string& by);
absl::StatusOr<scheduler::FiringQuery> FiringQueryFrom(const v1::ListFiringsRequest& request);

// Previews the schedules in the request, which do not belong to a job.
absl::StatusOr<scheduler::Preview> PreviewSchedules(const v1::PreviewJobRequest& request,
                                                    const scheduler::PreviewQuery& query);

// The job as ListJobs shows it: the task's prompt is truncated and possible secrets are removed.
v1::Job ToProto(const scheduler::JobView& view);
// The job as GetJob shows it: with the task as GetTask shows it, and the last firings.
v1::Job ToProto(const scheduler::JobDetail& detail);
v1::Firing ToProto(const core::Firing& firing);
absl::StatusOr<v1::PreviewJobResponse> ToProto(const scheduler::Preview& preview);
v1::BackfillJobResponse ToProto(const scheduler::Backfill& backfill);
// A page ends early if the message would become too large.
v1::ListJobsResponse ListResponse(const scheduler::JobPage& page);
v1::ListFiringsResponse ListResponse(const scheduler::FiringPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_SCHEDULER_JOB_MESSAGES_H_
