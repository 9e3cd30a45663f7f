#ifndef CALLBOARD_LIBS_DIRECTOR_TASK_TABLE_H_
#define CALLBOARD_LIBS_DIRECTOR_TASK_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/ranked_set.h"
#include "libs/core/record.h"
#include "libs/core/task_state.h"

namespace callboard::director {

// The next time at which each task needs attention; at most one time per task. `When` is a point in
// time on one of the clocks.
//
// Not thread-safe.
template <class When>
class TaskTimers {
 public:
  // Replaces the task's time. `nullopt` means never.
  void Set(core::QueueId task, std::optional<When> when) {
    const auto found = when_.find(task);
    if (found != when_.end()) {
      if (when == found->second) return;
      order_.erase({found->second, task});
      if (!when.has_value()) {
        when_.erase(found);
        return;
      }
      found->second = *when;
    } else if (when.has_value()) {
      when_.emplace(task, *when);
    }
    if (when.has_value()) order_.emplace(*when, task);
  }

  // Returns the earliest time, or nothing when there is none.
  std::optional<When> Next() const {
    if (order_.empty()) return std::nullopt;
    return order_.begin()->first;
  }

  // Removes and returns the earliest task that is due at `now`.
  std::optional<core::QueueId> TakeDue(When now) {
    if (order_.empty() || now < order_.begin()->first) return std::nullopt;
    const core::QueueId task = order_.begin()->second;
    order_.erase(order_.begin());
    when_.erase(task);
    return task;
  }

 private:
  absl::btree_set<std::pair<When, core::QueueId>> order_;
  absl::flat_hash_map<core::QueueId, When> when_;
};

struct Group;

// A task in memory: its state according to its records, and bookkeeping of this process, which a
// restart loses.
struct Entry {
  core::TaskState task;
  // Null when only the store has the spec, as for all ended tasks.
  core::SpecBytes spec = {};

  // Points in time on the monotonic clock. They belong to the current dispatch or, while the task
  // is pending, to its current wait.
  struct Timers {
    // End of the backoff.
    absl::Duration not_before = -absl::InfiniteDuration();
    // Agent time that the start carries and the agent's lease counts from, and the end of the lease
    // on the director's clock.
    absl::Duration agent_time = {};
    absl::Duration lease_until = absl::InfiniteDuration();
    // Copies of the start that were sent and, as far as we know, written.
    uint32_t starts_sent = 0;
    // When to send the start, or the cancel, again.
    absl::Duration repeat_at = absl::InfiniteDuration();
    // When the director ends the run itself because the agent should have ended it earlier.
    absl::Duration guard_at = absl::InfiniteDuration();
  };
  Timers timers = {};
  // True while the task is in backoff or waits for its earliest start.
  bool is_delayed = false;
  // Owned by the matcher; null unless the task is ready.
  Group* group = nullptr;
};

// The task that a request id stands for.
struct KnownRequest {
  core::QueueId queue_id;
  core::LifecycleState state = core::LifecycleState::kPending;
  core::Fingerprint fingerprint = {};
};

// All state that the records describe, and every index over it.
//
// Apply() is the only way to change it, live and during recovery. A record touches only its own
// task and that task's index entries, so the tasks of a store may be loaded in any order. Each
// operation costs at most O(log n) in the number of tasks.
//
// Not thread-safe. Pointers to entries stay valid until their task is forgotten.
class TaskTable {
 public:
  TaskTable() = default;
  TaskTable(const TaskTable&) = delete;
  TaskTable& operator=(const TaskTable&) = delete;

  // Returns the reason, for people, why `record` cannot come next; empty when it can.
  std::string TransitionError(const core::Record& record) const;
  // REQUIRES: TransitionError(record) is empty; dies otherwise.
  void Apply(const core::Record& record);

  // ---- The queue ----

  uint64_t epoch() const { return epoch_; }
  const core::QueueSwitched& switches() const { return switches_; }
  const core::LeasesExtended& lease_extension() const { return lease_extension_; }
  // Agents that are drained or cordoned.
  const std::map<std::string, core::AgentMarked>& marked_agents() const { return marked_; }
  // Larger than every sequence number in use.
  uint64_t next_sequence() const { return next_sequence_; }

  // ---- Tasks ----

  // Returns null when the task is unknown.
  Entry* Find(core::QueueId id);
  const Entry* Find(core::QueueId id) const { return const_cast<TaskTable*>(this)->Find(id); }

  // Returns 1 + the number of pending tasks with a smaller sequence number; 0 when the task is not
  // pending.
  uint64_t Position(const core::TaskState& task) const;
  // Returns the task that a redrive of `id` created, if there is one.
  std::optional<core::QueueId> RedrivenAs(core::QueueId id) const;

  const core::StateCounts& counts() const { return counts_; }
  // Keyed by Name(source), and by fairness key for tasks that have one.
  const std::map<std::string, core::LiveCount>& sources() const { return sources_; }
  const std::map<std::string, core::LiveCount>& fairness_keys() const { return fairness_keys_; }
  // Dispatches since the store was created.
  uint64_t dispatches() const { return dispatches_kept_ + dispatches_forgotten_; }
  // The part of dispatches() that belongs to forgotten tasks.
  uint64_t dispatches_forgotten() const { return dispatches_forgotten_; }
  uint64_t scheduler_pending() const { return scheduler_pending_; }
  // Returns the pending task that was admitted first; null when there is none.
  const Entry* OldestPending() const;
  // Returns the first pending task in queue order that was never dispatched and is not `except`;
  // with `scheduler_only`, considers only tasks of the scheduler. Null when there is none.
  Entry* OldestFresh(bool scheduler_only, const Entry* except = nullptr) const;

  // All live tasks by sequence number, which is queue order. A task in flight keeps the position
  // that it would return to.
  const absl::btree_map<uint64_t, Entry*>& live_tasks() const { return live_tasks_; }
  // Ended tasks, the earliest end first.
  const absl::btree_map<std::pair<absl::Time, core::QueueId>, Entry*>& ended() const {
    return ended_;
  }

  // ---- Relations between tasks ----

  // Returns the live task of the session that was admitted first. Only this one may run.
  Entry* FirstTaskOfSession(const std::string& session_id) const;
  // Returns the agent that ran the session's latest task; empty when it is not known.
  std::string OwnerOfSession(const std::string& session_id) const;

  struct TaskSession {
    // By order of admission.
    absl::btree_map<uint64_t, Entry*> live;
    absl::btree_map<uint64_t, std::string> ran_on;
    // Time of the latest event of one of its tasks.
    absl::Time active_at = absl::InfinitePast();
  };
  // By name. Includes sessions without live tasks while at least one of their tasks is known.
  const absl::btree_map<std::string, TaskSession>& sessions() const { return sessions_; }

  // The live tasks with one overlap key.
  struct OverlapGroup {
    // By order of admission; never empty.
    absl::btree_map<uint64_t, Entry*> live;
    // How many of them are dispatching or working.
    uint64_t in_flight = 0;
    // Pending tasks with the policy queue_one, by their `n` and order of admission.
    absl::btree_map<std::pair<uint64_t, uint64_t>, Entry*> queue_one;
  };
  // Returns null when no live task has the key.
  const OverlapGroup* FindOverlapGroup(const std::string& key) const;
  // Returns whether the task has to wait because too many tasks with its overlap key are in flight.
  bool WaitsForOverlap(const core::TaskState& task) const;

  // Returns the task that the id stands for at `now`; nothing when the id is free.
  std::optional<KnownRequest> FindRequest(const std::string& identity,
                                          const std::string& request_id, absl::Time now) const;
  // Request ids that outlive their task, in the order in which they expire.
  const absl::btree_set<std::pair<absl::Time, std::pair<std::string, std::string>>>& remembered()
      const {
    return remembered_order_;
  }

  // Dies when an index disagrees with the tasks. Costs as much as rebuilding all indexes.
  void CheckIndexes() const;

 private:
  // Limit of the memory for specs. Specs beyond it are read from the store when they are needed.
  static constexpr uint64_t kSpecBytesMax = 16 << 20;

  using RequestKey = std::pair<std::string, std::string>;
  // Keys of `requests_`, which finds entries by request id without a second copy of the id. The
  // hash is stored, so that growing the set does not touch the entries.
  struct RequestView {
    RequestView(absl::string_view of, absl::string_view id)
        : identity(of), request_id(id), hash(absl::HashOf(identity, request_id)) {}

    absl::string_view identity;
    absl::string_view request_id;
    size_t hash;
  };
  struct RequestEntry {
    explicit RequestEntry(Entry& of)
        : entry(&of), hash(RequestView(of.task.terms->identity, of.task.request_id).hash) {}

    Entry* entry;
    size_t hash;
  };
  struct RequestHash {
    using is_transparent = void;
    size_t operator()(const RequestView& request) const { return request.hash; }
    size_t operator()(const RequestEntry& requested) const { return requested.hash; }
  };
  struct RequestEq {
    using is_transparent = void;
    bool operator()(const RequestEntry& a, const RequestEntry& b) const {
      return a.hash == b.hash && a.entry->task.request_id == b.entry->task.request_id &&
             a.entry->task.terms->identity == b.entry->task.terms->identity;
    }
    bool operator()(const RequestEntry& a, const RequestView& b) const {
      return a.hash == b.hash && a.entry->task.request_id == b.request_id &&
             a.entry->task.terms->identity == b.identity;
    }
    bool operator()(const RequestView& a, const RequestEntry& b) const { return (*this)(b, a); }
  };
  // The keys under which the indexes hold a task. An absent key means that the index does not hold
  // it.
  struct Keys;

  void ApplyTask(const core::TaskRecord& record);
  void Forget(core::QueueId id);
  void Reindex(Entry& entry, const Keys& before, const Keys& after);
  void ReindexTaskSession(const std::string& session_id, Entry& entry, const Keys& before,
                          const Keys& after);
  void ReindexOverlap(const std::string& key, Entry& entry, const Keys& before, const Keys& after);
  void Count(const core::TaskState& task, core::LifecycleState before, int change);
  // Fills the indexes that do not change while the task is known.
  void IndexNewTask(Entry& entry, const core::TaskAdmitted& admitted);
  void DropSpec(Entry& entry);

  uint64_t epoch_ = 0;
  core::QueueSwitched switches_;
  core::LeasesExtended lease_extension_;
  std::map<std::string, core::AgentMarked> marked_;
  uint64_t next_sequence_ = 1;
  uint64_t dispatches_kept_ = 0;
  uint64_t dispatches_forgotten_ = 0;

  // Ids grow, so the insertion point next to the last entry is in the cache.
  absl::btree_map<core::QueueId, std::unique_ptr<Entry>> entries_;
  uint64_t spec_bytes_ = 0;
  core::PlacementTermsPool terms_;

  core::StateCounts counts_;
  std::map<std::string, core::LiveCount> sources_;
  std::map<std::string, core::LiveCount> fairness_keys_;
  uint64_t scheduler_pending_ = 0;

  absl::btree_map<uint64_t, Entry*> live_tasks_;
  core::RankedSet pending_sequences_;
  // Pending tasks by order of admission: those that were never dispatched, and the others.
  absl::btree_map<uint64_t, Entry*> fresh_;
  absl::btree_map<uint64_t, Entry*> returned_;
  absl::btree_map<uint64_t, Entry*> scheduler_fresh_;
  absl::btree_map<std::pair<absl::Time, core::QueueId>, Entry*> ended_;

  absl::btree_map<std::string, TaskSession> sessions_;
  absl::flat_hash_map<std::string, OverlapGroup> overlaps_;
  absl::flat_hash_set<RequestEntry, RequestHash, RequestEq> requests_;
  absl::flat_hash_map<RequestKey, core::RequestRemembered> remembered_;
  absl::btree_set<std::pair<absl::Time, RequestKey>> remembered_order_;
  absl::flat_hash_map<core::QueueId, core::QueueId> redriven_as_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_TABLE_H_
