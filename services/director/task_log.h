// Log lines, outcomes and durations of a step of a task, for logs, metrics and spans.
#ifndef CALLBOARD_SERVICES_DIRECTOR_TASK_LOG_H_
#define CALLBOARD_SERVICES_DIRECTOR_TASK_LOG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/log.h"
#include "libs/core/record.h"
#include "libs/director/observer.h"
#include "libs/director/task_step.h"

namespace callboard {

// How a dispatch ended: by the agent's answer, by failure, or by a cancel.
enum class DispatchOutcome { kAccepted, kBusy, kFailed, kRejected, kCancelled };
inline constexpr DispatchOutcome kDispatchOutcomes[] = {
    DispatchOutcome::kAccepted, DispatchOutcome::kBusy, DispatchOutcome::kFailed,
    DispatchOutcome::kRejected, DispatchOutcome::kCancelled};
absl::string_view Name(DispatchOutcome outcome);

inline constexpr director::CancelPhase kCancelPhases[] = {
    director::CancelPhase::kWaiting, director::CancelPhase::kQueued,
    director::CancelPhase::kDispatching, director::CancelPhase::kInFlight};
absl::string_view Name(director::CancelPhase phase);

// Returns nullopt when the step answers no dispatch. A result that arrives without an answer to the
// start counts as an answer.
std::optional<DispatchOutcome> OutcomeOf(const core::TaskRecord& record,
                                         const director::TaskStep& step);

// Durations of the phases that a step ended; absent for phases that it did not end. Measured in
// wall time, and never negative even if the clock was set back.
struct QueueTimes {
  // From the arrival of the submit until it was accepted.
  std::optional<absl::Duration> waiting = {};
  // One period in the queue.
  std::optional<absl::Duration> pending = {};
  // The same; for the first period, counted from the arrival of the submit.
  std::optional<absl::Duration> wait = {};
  // From the dispatch until it was answered.
  std::optional<absl::Duration> dispatch = {};
  std::optional<absl::Duration> run = {};
};
QueueTimes TimesOf(const core::TaskRecord& record, const director::TaskStep& step);

// Return the API's names in lower case: `completed`, `exec_failed`.
std::string Name(core::LifecycleState state);
std::string Name(core::FailureReason reason);
// Returns the error's reason in lower case, or its status code if it has no reason.
std::string ReasonOf(const absl::Status& error);
// Every reason for which a submit can be rejected.
inline constexpr absl::string_view kRejectReasons[] = {
    "queue_full",        "queue_draining",    "too_many_waiters",  "overloaded",
    "store_full",        "store_unavailable", "outcome_unknown",   "overlap",
    "request_id_reused", "ticket_expired",    "evict_not_allowed", "field_not_supported",
    "invalid_field",     "malformed_request",
};

// Events of the log. A line is `queue=<event>` and its fields.
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

struct QueueLogLine {
  QueueEvent event;
  base::LogLevel level = base::LogLevel::kInfo;

  friend bool operator==(const QueueLogLine&, const QueueLogLine&) = default;
};

// Returns the log lines of a step. Routine events are info; events that may need an operator's
// attention are warnings.
absl::InlinedVector<QueueLogLine, 2> LogLinesOf(const core::TaskRecord& record,
                                                const director::TaskStep& step);
// Returns the fields of a log line. They never include the task's content: prompt, payload or
// environment.
std::vector<base::LogField> FieldsOf(QueueEvent event, const core::TaskRecord& record,
                                     const director::TaskStep& step);
// The same for events that have no record: an orphan result, a rejected submit, a cancel.
std::vector<base::LogField> FieldsOf(const director::OrphanResult& orphan);
std::vector<base::LogField> FieldsOf(const absl::Status& error,
                                     const director::SubmitOrigin& origin);
std::vector<base::LogField> FieldsOf(const director::CancelledTask& task);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_TASK_LOG_H_
