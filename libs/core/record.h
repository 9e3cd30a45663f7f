// What the store keeps: every transition of every task, and a few facts about the queue. A record
// is at once what happened, for people, and all that is needed to do it again at recovery.
#ifndef CALLBOARD_LIBS_CORE_RECORD_H_
#define CALLBOARD_LIBS_CORE_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "libs/core/fingerprint.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/task.h"
#include "libs/core/trace_context.h"

namespace callboard::core {

// The first record of a task; the only one that holds what was asked for.
struct Admitted {
  // With the queue's defaults filled in. Never null.
  SpecPtr spec = {};
  // Of what was asked for, before that.
  Fingerprint fingerprint = {};
  std::optional<QueuePolicy> policy = {};
  // Who submitted it.
  std::string identity = {};
  absl::Time submitted_at = {};
  uint64_t sequence = 0;
  std::optional<QueueId> redrive_of = {};
  // The span of its submit, which all others of the task hang from.
  SpanContext trace = {};

  friend bool operator==(const Admitted& a, const Admitted& b) {
    return *a.spec == *b.spec && a.fingerprint == b.fingerprint && a.policy == b.policy &&
           a.identity == b.identity && a.submitted_at == b.submitted_at &&
           a.sequence == b.sequence && a.redrive_of == b.redrive_of && a.trace == b.trace;
  }
};

// Given to an agent. The lease begins with it.
struct Dispatched {
  DispatchNumber dispatch = {};
  uint64_t director_epoch = 0;
  // This life of the agent's process, and where it listens.
  std::string instance_id = {};
  std::string agent_url = {};

  friend bool operator==(const Dispatched&, const Dispatched&) = default;
};

// The agent runs it.
struct Accepted {
  friend bool operator==(const Accepted&, const Accepted&) = default;
};

// The agent had no slot: back in line, as if nothing had happened. Holds what Dispatched said,
// because from some bounce on it takes the place of the records of the one before.
struct Bounced {
  Dispatched dispatched = {};
  absl::Time dispatched_at = {};
  uint64_t sequence = 0;
  // This one included.
  uint32_t busy_rejections = 0;

  friend bool operator==(const Bounced&, const Bounced&) = default;
};

// What a dispatch that came to nothing says about task and agent.
enum class Blame {
  kNobody,
  // The task is better tried elsewhere.
  kAgentFailedIt,
  // The agent was lost while the task ran on it.
  kTookAgentDown,
};

// Back in line.
struct Returned {
  // A new one puts it at the back; its old one keeps its place.
  uint64_t sequence = 0;
  // Whether the dispatch counts as an attempt.
  bool counts = false;
  Blame blame = Blame::kNobody;
  // Whether its agent reported how the run ended.
  bool reported = false;
  // Not to be dispatched for this long from the record's time on.
  absl::Duration backoff = {};
  std::string error = {};

  // Nothing of it ran: the one end of a run that its agent reports and is to blame for.
  bool could_not_begin() const { return reported && blame == Blame::kAgentFailedIt; }

  friend bool operator==(const Returned&, const Returned&) = default;
};

// A cancel was asked for while it was not in line.
struct CancelRequested {
  friend bool operator==(const CancelRequested&, const CancelRequested&) = default;
};

// How a run ended, as its agent reports it.
struct RunResult {
  enum class End {
    kCompleted,
    kFailed,
    kTimedOut,
    kCancelled,
    // Nothing of it ran: its agent could not begin it.
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

// Over for good.
struct Ended {
  // Completed, failed or cancelled.
  TaskState state = TaskState::kCompleted;
  std::optional<FailureReason> reason = {};
  bool counts = false;
  Blame blame = Blame::kNobody;
  // Present when its agent reported the end.
  std::optional<RunResult> run = {};
  std::string error = {};

  friend bool operator==(const Ended&, const Ended&) = default;
};

// Something to remember that changes nothing.
struct Noted {
  friend bool operator==(const Noted&, const Noted&) = default;
};

using TaskChange =
    std::variant<Admitted, Dispatched, Accepted, Bounced, Returned, CancelRequested, Ended, Noted>;

// One transition of one task.
struct TaskRecord {
  QueueId queue_id = {};
  // Counts the records that the store has of the task, from 1. A record that takes the place of
  // others has the number of the first of them.
  uint64_t number = 0;
  // For people. Its number is never used twice.
  TaskEvent event = {};
  TaskChange change = {};
  // The record takes the place of so many of its task, from its own number on: all that there are.
  uint64_t replaces = 0;

  friend bool operator==(const TaskRecord&, const TaskRecord&) = default;
};

// The task and all its records are gone.
struct TaskForgotten {
  QueueId queue_id = {};
  // How many there were: numbers 1 to this.
  uint64_t records = 0;

  friend bool operator==(const TaskForgotten&, const TaskForgotten&) = default;
};

// A director begins; its predecessor's word counts no more.
struct EpochBegan {
  uint64_t epoch = 0;

  friend bool operator==(const EpochBegan&, const EpochBegan&) = default;
};

// What was last asked of the queue as a whole.
struct QueueSwitched {
  bool paused = false;
  bool draining = false;
  // Absent when the switch is off, or was set by a version that did not keep it.
  std::optional<SwitchCause> pause = {};
  std::optional<SwitchCause> drain = {};

  friend bool operator==(const QueueSwitched&, const QueueSwitched&) = default;
};

// Leases of this epoch last longer by so much, because the director said that it goes away.
struct LeasesExtended {
  uint64_t epoch = 0;
  absl::Duration extension = {};

  friend bool operator==(const LeasesExtended&, const LeasesExtended&) = default;
};

// What was last decided about an agent. One without either mark has no record.
struct AgentMarked {
  std::string name = {};
  bool draining = false;
  // Set aside since this life of its process; empty when it is not.
  std::string cordoned_instance = {};
  // Why, for people.
  std::string why = {};

  friend bool operator==(const AgentMarked&, const AgentMarked&) = default;
};

// How long a request id is remembered after its task has ended.
inline constexpr absl::Duration kRequestMemory = absl::Hours(24);

// A request id that outlives its task.
struct RequestRemembered {
  std::string identity = {};
  std::string request_id = {};
  Fingerprint fingerprint = {};
  QueueId queue_id = {};
  TaskState state = TaskState::kCompleted;
  absl::Time forget_at = {};

  friend bool operator==(const RequestRemembered&, const RequestRemembered&) = default;
};

// Dispatches of tasks that are no longer kept, since the store was created.
struct DispatchesForgotten {
  uint64_t count = 0;

  friend bool operator==(const DispatchesForgotten&, const DispatchesForgotten&) = default;
};

struct RequestForgotten {
  std::string identity = {};
  std::string request_id = {};

  friend bool operator==(const RequestForgotten&, const RequestForgotten&) = default;
};

using Record = std::variant<TaskRecord, TaskForgotten, EpochBegan, QueueSwitched, LeasesExtended,
                            AgentMarked, RequestRemembered, RequestForgotten, DispatchesForgotten>;

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_RECORD_H_
