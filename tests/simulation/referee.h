#ifndef CALLBOARD_TESTS_SIMULATION_REFEREE_H_
#define CALLBOARD_TESTS_SIMULATION_REFEREE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/core/hash.h"
#include "libs/core/record.h"
#include "libs/director/engine.h"
#include "libs/testing/memory_event_store.h"
#include "tests/simulation/gauges.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation {

// Checks the guarantees of the product during a simulation. The Referee knows the records that
// reached the disk, the messages that the director sent to callers and agents, and the running
// processes. Where it can count on its own, it does not rely on values from the engine.
class Referee {
 public:
  // With a `log`, notable events are written there.
  Referee(const Settings& settings, const Timeline& timeline, std::ostream* log)
      : settings_(settings), timeline_(timeline), log_(log) {}

  void Log(absl::string_view what) const;

  // Returns the first violation; empty while there is none.
  const std::string& failure() const { return failure_; }
  bool failed() const { return !failure_.empty(); }
  void Fail(const std::string& what);
  // Equal for two simulations in which the same events happened at the same times.
  uint64_t hash() const { return hash_.value(); }

  struct Counts {
    uint64_t records = 0;
    uint64_t tasks = 0;
    uint64_t ended = 0;
    uint64_t turns = 0;
  };
  const Counts& counts() const { return counts_; }

  // ---- The disk ----

  void OnWritten(const core::Record& record, director::Moment now);

  // ---- Messages of the director ----

  void OnSubmitAcknowledged(const std::string& identity, const std::string& request_id,
                            core::QueueId id, bool deduplicated);
  void OnCancelAcknowledged(core::QueueId id);
  // The director has sent a copy of a start to its agent.
  void OnStartSent(const core::FenceToken& token, absl::Duration agent_time) {
    const auto [first, is_first] = start_times_.emplace(token, agent_time);
    if (first->second != agent_time) {
      Fail(ToString(token.queue_id) + ": a copy of its start carries another time than the first");
    }
  }
  // An operator has ended all suspicions.
  void OnKick(director::Moment now) { kicked_at_ = now.monotonic; }
  // An agent deletes a result because the director acknowledged it.
  void OnResultForgotten(const core::FenceToken& token);

  // ---- Blocking submits ----

  // Only submits that are admitted in order of arrival: without ticket, without overlap and not
  // from the scheduler.
  void OnBlockingSubmit(uint64_t call) { waiting_.emplace(call, ++arrivals_); }
  void OnBlockingSubmitAnswered(uint64_t call, bool admitted);
  // All waiters are lost with the director's process.
  void OnWaitersLost() { waiting_.clear(); }

  // ---- Agents and processes ----

  void OnAgentStarted(const std::string& agent, const std::string& instance_id) {
    agents_[agent].instance_id = instance_id;
    agents_[agent].not_started.clear();
  }
  // The agent is about to report that the run of this dispatch could not be started.
  void OnRunNotStarted(const core::FenceToken& token) {
    not_started_.emplace(token.queue_id, token.dispatch.value());
  }
  void OnProcessStarted(const std::string& agent, const core::FenceToken& token);
  void OnProcessGone(const std::string& agent, const core::FenceToken& token);

  // ---- Checks ----

  // Called after every turn of a director that serves.
  void OnTurn(const director::DirectorEngine& engine, const test::MemoryDisk& disk,
              const Gauges& gauges, director::Moment now);
  // Called after the quiet phase: every task must have ended.
  void OnEnd();

 private:
  // A task according to the records on disk.
  struct StoredTask {
    core::TaskSpec spec;
    std::string identity;
    core::LifecycleState state = core::LifecycleState::kPending;
    uint64_t number = 0;
    uint64_t event_number = 0;
    uint64_t sequence = 0;
    // Its first sequence number.
    uint64_t admitted = 0;
    absl::Time created_at = absl::InfiniteFuture();
    uint64_t dispatch = 0;
    // Time of the decision to dispatch.
    absl::Duration dispatched_at = -absl::InfiniteDuration();
    uint32_t attempts = 0;
    uint32_t busy_answers = 0;
    std::string agent;
    std::string instance_id;
    bool cancel_requested = false;
    // Dispatches whose result is on disk.
    std::set<uint64_t> reported;
    absl::Duration backoff;
    absl::Duration ready_at = -absl::InfiniteDuration();
    absl::Time not_before = absl::InfinitePast();

    bool is_live() const { return state == core::LifecycleState::kPending || is_in_flight(); }
    bool is_in_flight() const {
      return state == core::LifecycleState::kDispatching || state == core::LifecycleState::kWorking;
    }
  };

  // Consecutive tasks that failed because of their agent.
  struct AgentHealth {
    // The instance id of the agent's current process.
    std::string instance_id;
    // The tasks whose runs this process could not start.
    std::set<core::QueueId> not_started;
    // All failed tasks, perhaps of earlier processes too.
    std::set<core::QueueId> failed;
    bool cordoned = false;
    // Cordoned by the previous record.
    bool is_newly_cordoned = false;
    // Minimum time until which the agent gets no task, because the lease of a start ended without
    // an answer.
    absl::Duration suspect_until = -absl::InfiniteDuration();
  };

  // A director has started from the records on disk.
  void OnRestart(director::Moment now);
  void OnTask(const core::TaskRecord& record, director::Moment now);
  void OnAdmitted(const core::TaskRecord& record, const core::TaskAdmitted& admitted,
                  StoredTask& stored);
  void OnDispatched(const core::TaskRecord& record, const core::TaskDispatched& dispatched,
                    StoredTask& stored, director::Moment now);
  void OnAnsweredBusy(const core::StartAnsweredBusy& busy, StoredTask& stored);
  void OnReturned(const core::TaskRecord& record, const core::TaskReturned& returned,
                  StoredTask& stored, director::Moment now);
  void OnEnded(const core::TaskRecord& record, const core::TaskEnded& ended, StoredTask& stored);
  void OnMarked(const core::AgentMarked& marked);
  // A start has been answered, if `who` is its agent.
  void OnStartAnswered(const StoredTask& stored, const std::string& who) {
    if (stored.state != core::LifecycleState::kDispatching || who != stored.agent) return;
    agents_[stored.agent].suspect_until = -absl::InfiniteDuration();
  }
  // Returns whether the dispatch ended because the lease of its start expired. A start that is
  // returned without being counted, after a backoff, or because its agent has restarted, ended for
  // another reason.
  bool LeaseOfStartEnded(const core::TaskReturned& returned, const StoredTask& stored) const {
    const auto health = agents_.find(stored.agent);
    return stored.state == core::LifecycleState::kDispatching && returned.counts_as_attempt &&
           !returned.reported && returned.failure == core::DispatchFailure::kAgentFailed &&
           returned.backoff == absl::ZeroDuration() && health != agents_.end() &&
           health->second.instance_id == stored.instance_id;
  }
  // Checks that no agent keeps a task by not answering its start.
  void CheckLeasesOfStarts(director::Moment now) {
    const absl::Duration lease = settings_.engine.lease.redispatch_after + lease_extension_;
    for (const auto& [id, stored] : tasks_) {
      if (stored.state == core::LifecycleState::kDispatching &&
          now.monotonic > std::max(stored.dispatched_at, epoch_began_at_) + lease) {
        return Fail(stored.agent + " holds " + ToString(id) + " beyond the lease of its start");
      }
    }
  }
  bool WasNotStarted(const core::TaskRecord& record, const StoredTask& stored) const {
    return not_started_.contains({record.queue_id, stored.dispatch});
  }
  // Checks the cordon state after a dispatch has ended with `change`.
  template <class Change>
  void CheckCordon(const core::TaskRecord& record, const Change& change, bool reported,
                   const StoredTask& stored);
  void CheckFirstInLine(const StoredTask& stored, const std::string& agent, director::Moment now);
  // Returns whether a task with this overlap must wait because of the tasks of its key that are in
  // flight.
  bool WaitsForOverlap(const std::optional<core::Overlap>& overlap) const;
  void CheckWorkConservation(const director::DirectorEngine& engine, director::Moment now);
  void CheckGauges(const director::DirectorEngine& engine, const Gauges& gauges);
  void CheckAgainstDisk(const director::DirectorEngine& engine, const test::MemoryDisk& disk);
  // Returns a number larger than every sequence number of a live task.
  uint64_t BackOfQueue() const;
  uint64_t Pending() const;

  const Settings& settings_;
  const Timeline& timeline_;
  std::ostream* const log_;
  std::string failure_;
  core::StableHash hash_;
  Counts counts_;

  std::map<core::QueueId, StoredTask> tasks_;
  std::map<core::QueueId, core::LifecycleState> forgotten_;
  // Pending tasks that were dropped in favor of the task whose record comes next.
  uint64_t dropped_for_next_ = 0;
  // Slots that were reserved by tickets after the last turn.
  uint64_t tickets_ = 0;
  uint64_t epoch_ = 0;
  // Dispatches since the start of the simulation.
  uint64_t dispatches_ = 0;
  std::map<std::pair<std::string, std::string>, core::QueueId> by_request_;
  std::set<core::QueueId> cancel_acknowledged_;
  // Arrival number of each waiting call. Of the calls that were admitted, `last_admitted_` is the
  // largest number.
  std::map<uint64_t, uint64_t> waiting_;
  uint64_t last_admitted_ = 0;
  uint64_t arrivals_ = 0;
  // The agents that run a process, by task.
  std::map<core::QueueId, std::set<std::pair<std::string, core::FenceToken>>> processes_;
  // Tasks and dispatch numbers.
  std::set<std::pair<core::QueueId, uint64_t>> not_started_;
  // State of each agent, by name.
  std::map<std::string, AgentHealth> agents_;
  // The time in the first copy of each start, by token.
  std::map<core::FenceToken, absl::Duration> start_times_;
  absl::Duration kicked_at_ = -absl::InfiniteDuration();
  absl::Duration epoch_began_at_ = -absl::InfiniteDuration();
  // Extension of the leases since the director announced that it goes away.
  absl::Duration lease_extension_ = {};
};

// Labels of an agent. The agents and the referee use the same labels.
std::map<std::string, std::string> LabelsOfAgent(const std::string& name);

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_REFEREE_H_
