// The state of a task, which follows from its records, and the task and events that users see.

#ifndef CALLBOARD_LIBS_CORE_TASK_STATE_H_
#define CALLBOARD_LIBS_CORE_TASK_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/value_types.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/core/trace.h"

namespace callboard::core {

// From this number of busy answers on a task keeps its place in the queue
// (DirectorEngine::HandleBusy()).
inline constexpr uint32_t kKeepsPlaceFromBusyAnswer = 5;

// Returns the Session features that an agent must announce to run such a task. Session version 1
// supports all current fields; a field that needs more adds its feature here.
std::set<std::string> RequiredFeatures(const PlacementTerms& terms);

// Interns the terms of all tasks, so that equal terms are stored once. Not thread-safe.
class PlacementTermsPool {
 public:
  // Returns the shared copy of `terms`.
  base::CopyOnWrite<PlacementTerms> Get(PlacementTerms terms);
  // Removes `terms` from the pool if no task uses them any more.
  void Release(const PlacementTerms& terms);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(const base::CopyOnWrite<PlacementTerms>& terms) const {
      return absl::HashOf(*terms);
    }
    size_t operator()(const PlacementTerms& terms) const { return absl::HashOf(terms); }
  };
  struct Eq {
    using is_transparent = void;
    bool operator()(const base::CopyOnWrite<PlacementTerms>& a,
                    const base::CopyOnWrite<PlacementTerms>& b) const {
      return a == b;
    }
    bool operator()(const base::CopyOnWrite<PlacementTerms>& a, const PlacementTerms& b) const {
      return *a == b;
    }
  };
  absl::flat_hash_set<base::CopyOnWrite<PlacementTerms>, Hash, Eq> all_;
};

// The results of a task's dispatches so far.
struct DispatchHistory {
  // The current or last dispatch.
  std::string agent;
  std::string agent_url;
  std::string instance_id;
  uint64_t director_epoch = 0;
  absl::Time dispatched_at = absl::InfinitePast();
  // True if the dispatch came so long after the previous one that it begins a new trace.
  bool begins_trace = false;
  // Time of the last transition to pending, dispatching or working.
  absl::Time since = absl::InfinitePast();
  uint32_t busy_rejections = 0;
  // Number of the record of the last BUSY event, which the next one may replace; 0 if a different
  // event has happened since.
  uint64_t last_busy = 0;
  // Agents to avoid for the next dispatch, and agents that were lost while the task ran on them.
  std::set<std::string> failed_on;
  std::set<std::string> agents_lost;
  absl::Duration backoff;
  std::optional<absl::Time> not_before;
  std::string last_error;
  std::optional<absl::Time> cancel_requested_at;
  // The agent of the last finished dispatch that may have run something; empty before there is one.
  std::string ran_on;
  // The dispatches whose result was accepted. Each of them was an attempt.
  std::set<DispatchNumber> reported_dispatches;
  // The last dispatch whose result came too late; 0 for none.
  DispatchNumber orphaned_dispatch;

  friend bool operator==(const DispatchHistory&, const DispatchHistory&) = default;
};

// The state of a task as far as the director's decisions depend on it. It is a function of the
// task's records, so it is the same in the running director and after a restart. Data that only
// users read stays in the records (BuildTask()).
//
//   pending ──► dispatching ──► working ──► completed | failed | cancelled
//      ▲             │             │
//      └─────────────┴─────────────┘  returned to the queue
struct TaskState {
  QueueId queue_id;
  base::CopyOnWrite<PlacementTerms> terms;
  std::string request_id;
  std::string session_id;
  absl::Time earliest_start_at = absl::InfinitePast();
  absl::Time deadline_at = absl::InfiniteFuture();
  Fingerprint fingerprint = {};
  absl::Time submitted_at = absl::InfinitePast();
  absl::Time created_at = absl::InfinitePast();
  // InfiniteFuture() until the task has finished.
  absl::Time finished_at = absl::InfiniteFuture();
  // Number of the last record, and number and kind of the last event. The two numbers differ,
  // because the first record makes two events, and a record may replace earlier ones
  // (TaskRecord::replaces).
  uint64_t last_record = 0;
  uint64_t last_event_number = 0;
  TaskEventKind last_event_kind = TaskEventKind::kSubmitted;
  LifecycleState state = LifecycleState::kPending;
  // The place in the queue; while the task is in flight, the place to which it would return.
  uint64_t sequence = 0;
  // The place in the queue at admission. Never changes; orders the tasks of a session.
  uint64_t admitted_sequence = 0;
  // The span of the submit.
  SpanContext trace;
  // The current or last dispatch; 0 before the first.
  DispatchNumber dispatch;
  uint32_t attempts = 0;
  base::CopyOnWrite<DispatchHistory> history;

  bool is_pending() const { return state == LifecycleState::kPending; }
  bool is_in_flight() const {
    return state == LifecycleState::kDispatching || state == LifecycleState::kWorking;
  }
  bool is_ended() const { return !is_pending() && !is_in_flight(); }
  bool is_cancel_requested() const { return history->cancel_requested_at.has_value(); }
  // Returns the time of the last transition. REQUIRES: !is_ended().
  absl::Time since() const { return dispatch == DispatchNumber() ? created_at : history->since; }
  // Returns the last agent on which the task may have run; empty if it has not run.
  const std::string& ran_on() const {
    return state == LifecycleState::kWorking ? history->agent : history->ran_on;
  }
  FenceToken token() const { return {queue_id, dispatch, history->director_epoch}; }
  // Returns the span of the current or last dispatch. REQUIRES: dispatch != DispatchNumber().
  SpanContext dispatch_trace() const;

  friend bool operator==(const TaskState&, const TaskState&) = default;
};

// Returns why `record` cannot be the next record of `task`, as a human-readable predicate such as
// "was accepted without a dispatch". Returns an empty text if it can.
std::string TransitionError(const TaskRecord& record, const TaskState& task);

// Applies `record` to `task`. Nothing else changes a TaskState. CHECK-fails if TransitionError()
// reports an error, because a decision that breaks an invariant must not reach the store. Interns
// the task's terms in `pool`.
void Apply(const TaskRecord& record, PlacementTermsPool& pool, TaskState& task);

// Builds a task as users see it from its records. Leaves out the fields that depend on other tasks:
// position and redriven_as. REQUIRES: `records` are all records of the task, oldest first, and
// there is at least one.
Task BuildTask(absl::Span<const TaskRecord> records);

// Builds the events of a task as users see them. The first record makes two events: SUBMITTED
// (number 1) and ADMITTED (number 2).
std::vector<TaskEvent> BuildEvents(absl::Span<const TaskRecord> records);

// Returns the counter of the tasks in `state`.
uint64_t& CounterFor(StateCounts& counts, LifecycleState state);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TASK_STATE_H_
