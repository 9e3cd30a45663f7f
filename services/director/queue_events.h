// What a step of a task is to those who look on: lines of the log, and numbers.
#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_EVENTS_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_EVENTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/log_line.h"
#include "libs/core/record.h"
#include "libs/director/observer.h"
#include "libs/director/task_step.h"

namespace callboard {

// How a dispatch was answered: by its agent, or by whoever gave it up.
enum class DispatchOutcome { kAccepted, kBusy, kFailed, kRejected, kCancelled };
inline constexpr DispatchOutcome kDispatchOutcomes[] = {
    DispatchOutcome::kAccepted, DispatchOutcome::kBusy, DispatchOutcome::kFailed,
    DispatchOutcome::kRejected, DispatchOutcome::kCancelled};
absl::string_view Name(DispatchOutcome outcome);

inline constexpr director::CancelPhase kCancelPhases[] = {
    director::CancelPhase::kWaiting, director::CancelPhase::kQueued,
    director::CancelPhase::kDispatching, director::CancelPhase::kInFlight};
absl::string_view Name(director::CancelPhase phase);

// Nothing when the step answers no dispatch. A result that comes without an answer is one, too.
std::optional<DispatchOutcome> OutcomeOf(const core::TaskRecord& record,
                                         const director::TaskStep& step);

// How long it took to come to this step; what it did not end is absent. Wall time: never below 0,
// whatever the clock does.
struct QueueTimes {
  // At the door, until it was accepted.
  std::optional<absl::Duration> waiting = {};
  // One stay in line; and the same with the time at the door before the first.
  std::optional<absl::Duration> pending = {};
  std::optional<absl::Duration> wait = {};
  // Until a dispatch was answered.
  std::optional<absl::Duration> dispatch = {};
  std::optional<absl::Duration> run = {};
};
QueueTimes TimesOf(const core::TaskRecord& record, const director::TaskStep& step);

// `completed`, `exec_failed`: as in the API, in lower case.
std::string Name(core::TaskState state);
std::string Name(core::FailureReason reason);
// The reason of a refused call, in lower case; of one without, its code.
std::string ReasonOf(const absl::Status& refusal);
// Every reason for which a submit is refused.
inline constexpr absl::string_view kRefusals[] = {
    "queue_full",        "queue_draining",    "too_many_waiters",  "overloaded",
    "store_full",        "store_unavailable", "outcome_unknown",   "overlap",
    "request_id_reused", "ticket_expired",    "evict_not_allowed", "field_not_supported",
    "invalid_field",     "malformed_request",
};

// A line of the log is `queue=<event>` and its fields.
enum class QueueEvent {
  kTaskAdded,
  kDispatch,
  kDispatchSuccess,
  kDispatchFailed,
  kRunFailed,
  kCancelRequested,
  kTaskEnded,
  kOrphanResult,
  kUnknownRun,
  kSubmitRejected,
};
absl::string_view Name(QueueEvent event);

struct QueueLine {
  QueueEvent event;
  base::LogLevel level = base::LogLevel::kInfo;

  friend bool operator==(const QueueLine&, const QueueLine&) = default;
};

// The lines of a step. What is routine is info, what somebody may have to look into a warning.
absl::InlinedVector<QueueLine, 2> LinesOf(const core::TaskRecord& record,
                                          const director::TaskStep& step);
// The fields of one of them. Nothing that a task was given is among them.
std::vector<base::LogField> FieldsOf(QueueEvent event, const core::TaskRecord& record,
                                     const director::TaskStep& step);
// Of a result without a record.
std::vector<base::LogField> FieldsOf(const director::OrphanResult& orphan);
std::vector<base::LogField> FieldsOf(const absl::Status& refusal,
                                     const director::SubmitOrigin& origin);
std::vector<base::LogField> FieldsOf(const director::CancelledTask& task);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_EVENTS_H_
