// Jobs and their occurrences as users see them, and what users ask of them.
#ifndef CALLBOARD_SERVICES_SCHEDULER_JOB_MESSAGES_H_
#define CALLBOARD_SERVICES_SCHEDULER_JOB_MESSAGES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/scheduler.pb.h"
#include "libs/core/firing.h"
#include "libs/core/schedule.h"
#include "libs/scheduler/driver.h"
#include "libs/wire/enum_pair.h"

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
    {core::FiringOutcome::kRefused, v1::Firing::OUTCOME_REFUSED},
};

// Each is INVALID_ARGUMENT with the name of every wrong field. `made_up` is the id of a call that
// has none; `now` is when it came.
struct JobsQuery {
  std::string after = {};
  size_t page_size = 0;
};
absl::StatusOr<JobsQuery> JobsQueryFrom(const v1::ListJobsRequest& request);
scheduler::TriggerQuery TriggerQueryFrom(const v1::TriggerJobRequest& request,
                                         const std::string& made_up);
absl::StatusOr<scheduler::Pause> PauseFrom(const v1::PauseJobRequest& request,
                                           const std::string& by);
absl::StatusOr<scheduler::PreviewQuery> PreviewQueryFrom(const v1::PreviewJobRequest& request,
                                                         absl::Time now);
absl::StatusOr<scheduler::BackfillQuery> BackfillQueryFrom(const v1::BackfillJobRequest& request,
                                                           const std::string& made_up,
                                                           const std::string& by);
absl::StatusOr<scheduler::FiringQuery> FiringQueryFrom(const v1::ListFiringsRequest& request);

// Of a schedule that is no job.
absl::StatusOr<scheduler::Preview> PreviewOf(const v1::PreviewJobRequest& request,
                                             const scheduler::PreviewQuery& query);

// The task as in a list: its prompt cut, without what may be secret.
v1::Job ToProto(const scheduler::JobView& view);
// The task as GetTask shows it, and the last occurrences.
v1::Job ToProto(const scheduler::JobDetail& detail);
v1::Firing ToProto(const core::Firing& firing);
absl::StatusOr<v1::PreviewJobResponse> ToProto(const scheduler::Preview& preview);
v1::BackfillJobResponse ToProto(const scheduler::Backfill& backfill);
// Pages end early where they would become too large for a message.
v1::ListJobsResponse ListResponse(const scheduler::JobPage& page);
v1::ListFiringsResponse ListResponse(const scheduler::FiringPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_SCHEDULER_JOB_MESSAGES_H_
