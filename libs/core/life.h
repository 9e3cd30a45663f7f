#ifndef CALLBOARD_LIBS_CORE_LIFE_H_
#define CALLBOARD_LIBS_CORE_LIFE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "libs/core/record.h"
#include "libs/core/task.h"

namespace callboard::core {

// A task that an agent was too busy for goes to the back of the line; from this time on it keeps
// its place, so that it gets its turn.
inline constexpr uint32_t kKeepsPlaceFromBounce = 5;

// Everything about a task that its records determine: the same live and after a restart.
//
//   pending ──► dispatching ──► working ──► completed | failed | cancelled
//      ▲             │             │
//      └─────────────┴─────────────┘  returned
struct Life {
  // As its users see it, but for its position, which depends on others.
  Task task;
  std::string identity;
  Fingerprint fingerprint = {};
  // Number of its last record.
  uint64_t events = 0;
  // Its place in line; in flight, the one it would return to.
  uint64_t sequence = 0;
  // The first place it had, which never changes: the order within its session.
  uint64_t admitted = 0;
  // Of the current or last dispatch.
  std::string agent;
  std::string instance_id;
  uint64_t director_epoch = 0;
  // Agents that it is better not tried on again, and those that were lost while it ran.
  std::set<std::string> failed_on;
  std::set<std::string> took_down;
  absl::Duration backoff;
  // The last agent that accepted it or said how its run ended; empty before.
  std::string ran_on;
  // The dispatches whose result was accepted, each of which was an attempt.
  std::set<DispatchNumber> reported;
  // The last dispatch whose result came too late; 0 for none.
  DispatchNumber orphaned;
  // What happened last.
  TaskEventKind last_event = TaskEventKind::kSubmitted;
  // Number of the BUSY event that the next one may take the place of; 0 when something else has
  // happened since.
  uint64_t last_busy = 0;

  bool is_pending() const { return task.state == TaskState::kPending; }
  bool is_in_flight() const {
    return task.state == TaskState::kDispatching || task.state == TaskState::kWorking;
  }
  bool is_ended() const { return !is_pending() && !is_in_flight(); }
  FenceToken token() const { return {task.queue_id, task.dispatch, director_epoch}; }

  friend bool operator==(const Life&, const Life&) = default;
};

// The one way in which a task changes. Dies when the change is not one that the task's state
// allows: a decision that would break an invariant must not reach the store.
void Apply(const TaskRecord& record, Life& life);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_LIFE_H_
