// The records in the event store: every transition of every task, and a few facts about the queue.
// A record describes an event to users and contains everything that recovery needs to replay it.
#ifndef CALLBOARD_LIBS_CORE_RECORD_H_
#define CALLBOARD_LIBS_CORE_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/task.h"
#include "libs/core/trace.h"

namespace callboard::core {

// The first record of a task, and the only one with its spec.
struct TaskAdmitted {
  // Never null.
  SpecPtr spec = {};
  Fingerprint fingerprint = {};
  std::optional<QueuePolicy> policy = {};
  // Identity of the submitter.
  std::string identity = {};
  absl::Time submitted_at = {};
  uint64_t sequence = 0;
  std::optional<QueueId> redrive_of = {};
  // The span of the submit, which is the ancestor of all other spans of the task.
  SpanContext trace = {};

  friend bool operator==(const TaskAdmitted& a, const TaskAdmitted& b) {
    return *a.spec == *b.spec && a.fingerprint == b.fingerprint && a.policy == b.policy &&
           a.identity == b.identity && a.submitted_at == b.submitted_at &&
           a.sequence == b.sequence && a.redrive_of == b.redrive_of && a.trace == b.trace;
  }
};

// The task was dispatched to an agent. Its lease begins.
struct TaskDispatched {
  DispatchNumber dispatch = {};
  uint64_t director_epoch = 0;
  // The agent's process, and its address.
  std::string instance_id = {};
  std::string agent_url = {};

  friend bool operator==(const TaskDispatched&, const TaskDispatched&) = default;
};

// The agent accepted the start and runs the task.
struct StartAccepted {
  friend bool operator==(const StartAccepted&, const StartAccepted&) = default;
};

// The agent answered that it is busy. The task is back in the queue, and the dispatch does not
// count as an attempt. The record contains the contents of TaskDispatched, because after some busy
// answers it replaces the records of the previous dispatch (kKeepsPlaceFromBusyAnswer).
struct StartAnsweredBusy {
  TaskDispatched dispatched = {};
  absl::Time dispatched_at = {};
  uint64_t sequence = 0;
  // Number of busy answers, including this one.
  uint32_t busy_rejections = 0;

  friend bool operator==(const StartAnsweredBusy&, const StartAnsweredBusy&) = default;
};

// The agent's part in a dispatch that failed.
enum class DispatchFailure {
  // The agent is not at fault.
  kNone,
  // The agent failed. Another agent is preferred for the next dispatch.
  kAgentFailed,
  // The agent was lost while the task ran on it.
  kAgentLost,
};

// The task is back in the queue after a dispatch.
struct TaskReturned {
  // The place in the queue: a new number puts the task at the back, its old number keeps its place.
  uint64_t sequence = 0;
  // True if the dispatch counts as an attempt.
  bool counts_as_attempt = false;
  DispatchFailure failure = DispatchFailure::kNone;
  // True if the agent reported the end of the run.
  bool reported = false;
  // The task must not be dispatched for this long after the time of the record.
  absl::Duration backoff = {};
  std::string error = {};

  // Returns true if the agent could not start the run. No other end that an agent reports is the
  // agent's fault.
  bool could_not_start() const { return reported && failure == DispatchFailure::kAgentFailed; }

  friend bool operator==(const TaskReturned&, const TaskReturned&) = default;
};

// A cancel was requested while the task was in flight.
struct CancelRequested {
  friend bool operator==(const CancelRequested&, const CancelRequested&) = default;
};

// The end of a run, as its agent reports it.
struct RunResult {
  enum class End {
    kCompleted,
    kFailed,
    kTimedOut,
    kCancelled,
    // The agent could not start the run. Nothing of it ran.
    kNotStarted,
  };

  End end = End::kCompleted;
  std::optional<int32_t> exit_code = {};
  std::string signal = {};
  std::string result = {};
  bool result_truncated = false;
  std::string error = {};

  friend bool operator==(const RunResult&, const RunResult&) = default;
};

// Returns the name of `end` in metrics and spans.
constexpr const char* Name(RunResult::End end) {
  switch (end) {
    case RunResult::End::kCompleted:
      return "completed";
    case RunResult::End::kFailed:
      return "failed";
    case RunResult::End::kTimedOut:
      return "timed_out";
    case RunResult::End::kCancelled:
      return "cancelled";
    case RunResult::End::kNotStarted:
      return "not_started";
  }
  return "";
}

// The task has finished. No other transition follows.
struct TaskEnded {
  // Completed, failed or cancelled.
  LifecycleState state = LifecycleState::kCompleted;
  std::optional<FailureReason> reason = {};
  bool counts_as_attempt = false;
  DispatchFailure failure = DispatchFailure::kNone;
  // Present if the agent reported the end.
  std::optional<RunResult> run = {};
  std::string error = {};

  friend bool operator==(const TaskEnded&, const TaskEnded&) = default;
};

// Adds an event to the task and does not change its lifecycle state.
struct EventOnly {
  friend bool operator==(const EventOnly&, const EventOnly&) = default;
};

using TaskChange = std::variant<TaskAdmitted, TaskDispatched, StartAccepted, StartAnsweredBusy,
                                TaskReturned, CancelRequested, TaskEnded, EventOnly>;

// One transition of one task.
struct TaskRecord {
  QueueId queue_id = {};
  // Number of this record among the task's records in the store, from 1. A record that replaces
  // others has the number of the first of them.
  uint64_t number = 0;
  // The event that users see. Its number is never used twice.
  TaskEvent event = {};
  TaskChange change = {};
  // Number of the task's records that this one overwrites, from `number` to the last one.
  uint64_t replaces = 0;

  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// The task and all its records were deleted.
struct TaskForgotten {
  QueueId queue_id = {};
  // Number of the task's records: their numbers were 1 to this.
  uint64_t records = 0;

  friend bool operator==(const TaskForgotten&, const TaskForgotten&) = default;
};

// A director started or reopened its store. Directors of earlier epochs must not act any more.
struct EpochBegan {
  uint64_t epoch = 0;

  friend bool operator==(const EpochBegan&, const EpochBegan&) = default;
};

// The current switches of the queue.
struct QueueSwitched {
  bool paused = false;
  bool draining = false;
  // Absent if the switch is off, or was set by a version that did not store the cause.
  std::optional<SwitchCause> pause = {};
  std::optional<SwitchCause> drain = {};

  friend bool operator==(const QueueSwitched&, const QueueSwitched&) = default;
};

// Leases of this epoch were extended, because the director announced its restart.
struct LeasesExtended {
  uint64_t epoch = 0;
  absl::Duration extension = {};

  friend bool operator==(const LeasesExtended&, const LeasesExtended&) = default;
};

// The current marks of an agent. An agent without marks has no record.
struct AgentMarked {
  std::string name = {};
  bool draining = false;
  // The agent process that was cordoned; empty if the agent is not cordoned.
  std::string cordoned_instance = {};
  // A human-readable reason.
  std::string why = {};

  friend bool operator==(const AgentMarked&, const AgentMarked&) = default;
};

// How long a request id is kept after its task has finished.
inline constexpr absl::Duration kRequestMemory = absl::Hours(24);

// A request id was kept when its task was deleted.
struct RequestRemembered {
  std::string identity = {};
  std::string request_id = {};
  Fingerprint fingerprint = {};
  QueueId queue_id = {};
  LifecycleState state = LifecycleState::kCompleted;
  absl::Time forget_at = {};

  friend bool operator==(const RequestRemembered&, const RequestRemembered&) = default;
};

// A remembered request id has expired, and is free again.
struct RequestForgotten {
  std::string identity = {};
  std::string request_id = {};

  friend bool operator==(const RequestForgotten&, const RequestForgotten&) = default;
};

// Number of dispatches of deleted tasks, since the store was created.
struct DispatchesForgotten {
  uint64_t count = 0;

  friend bool operator==(const DispatchesForgotten&, const DispatchesForgotten&) = default;
};

using Record = std::variant<TaskRecord, TaskForgotten, EpochBegan, QueueSwitched, LeasesExtended,
                            AgentMarked, RequestRemembered, RequestForgotten, DispatchesForgotten>;

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_RECORD_H_
