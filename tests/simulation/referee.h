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
#include "libs/core/record.h"
#include "libs/core/stable_hash.h"
#include "libs/director/engine.h"
#include "libs/testing/memory_event_store.h"
#include "tests/simulation/gauges.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation {

// Watches a world and says when a promise is broken. Knows what reached the disk, what the director
// said to callers and agents, and which processes run; believes nothing that the engine says of
// itself where it can count for itself.
class Referee {
 public:
  // With a `log`, everything of note is written there.
  Referee(const Settings& settings, const Timeline& timeline, std::ostream* log)
      : settings_(settings), timeline_(timeline), log_(log) {}

  void Note(absl::string_view what) const;

  // The first broken promise; empty while there is none.
  const std::string& failure() const { return failure_; }
  bool failed() const { return !failure_.empty(); }
  void Fail(const std::string& what);
  // Equal for two runs of a world in which the same happened at the same times.
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

  // ---- What is said ----

  void OnSubmitAcknowledged(const std::string& identity, const std::string& request_id,
                            core::QueueId id, bool deduplicated);
  void OnCancelAcknowledged(core::QueueId id);
  // A copy of a start is on its way to its agent.
  void OnStartSaid(const core::FenceToken& token, absl::Duration agent_time) {
    const auto [first, is_first] = start_times_.emplace(token, agent_time);
    if (first->second != agent_time) {
      Fail(ToString(token.queue_id) + ": a copy of its start carries another time than the first");
    }
  }
  // Suspicions have ended.
  void OnKick(director::Moment now) { kicked_at_ = now.monotonic; }
  // An agent forgets a result, because it was told that it may.
  void OnResultForgotten(const core::FenceToken& token);

  // ---- Callers who may have to wait ----

  // Of those who take their turn and nothing else: neither ticket nor overlap nor the scheduler.
  void OnKnock(uint64_t call) { waiting_.emplace(call, ++knocks_); }
  void OnKnockAnswered(uint64_t call, bool admitted);
  // With the director's process everybody's place in line is gone.
  void OnKnocksLost() { waiting_.clear(); }

  // ---- Agents and processes ----

  void OnAgentStarted(const std::string& agent, const std::string& instance_id) {
    rows_[agent].instance_id = instance_id;
    rows_[agent].could_not_begin.clear();
  }
  // Nothing of the dispatch ran, and its agent is about to say so.
  void OnCouldNotBegin(const core::FenceToken& token) {
    could_not_begin_.emplace(token.queue_id, token.dispatch.value());
  }
  void OnProcessStarted(const std::string& agent, const core::FenceToken& token);
  void OnProcessGone(const std::string& agent, const core::FenceToken& token);

  // ---- Looking in ----

  // After every turn of a director that serves.
  void OnTurn(const director::DirectorEngine& engine, const test::MemoryDisk& disk,
              const Gauges& gauges, director::Moment now);
  // After the quiet phase: everything has to be over.
  void OnEnd();

 private:
  // What the disk says of a task.
  struct Told {
    core::TaskSpec spec;
    std::string identity;
    core::TaskState state = core::TaskState::kPending;
    uint64_t number = 0;
    uint64_t event_number = 0;
    uint64_t sequence = 0;
    // Its first sequence number.
    uint64_t admitted = 0;
    absl::Time created_at = absl::InfiniteFuture();
    uint64_t dispatch = 0;
    // When the dispatch was decided.
    absl::Duration dispatched_at = -absl::InfiniteDuration();
    uint32_t attempts = 0;
    uint32_t bounces = 0;
    std::string agent;
    std::string instance_id;
    bool cancel_requested = false;
    // Dispatches whose result the disk has.
    std::set<uint64_t> reported;
    absl::Duration backoff;
    absl::Duration ready_at = -absl::InfiniteDuration();
    absl::Time not_before = absl::InfinitePast();

    bool is_live() const { return state == core::TaskState::kPending || is_in_flight(); }
    bool is_in_flight() const {
      return state == core::TaskState::kDispatching || state == core::TaskState::kWorking;
    }
  };

  // The tasks in a row that failed for an agent's sake.
  struct Row {
    // Of the agent's current life.
    std::string instance_id;
    // Some of them: those of which this life could begin nothing.
    std::set<core::QueueId> could_not_begin;
    // All of them, and perhaps others.
    std::set<core::QueueId> failed;
    bool cordoned = false;
    // By the record before this one.
    bool is_newly_cordoned = false;
    // Until when it gets no task at least: the lease of a start ended without an answer.
    absl::Duration suspect_until = -absl::InfiniteDuration();
  };

  // A director begins from what is on disk.
  void OnRestart(director::Moment now);
  void OnTask(const core::TaskRecord& record, director::Moment now);
  void OnAdmitted(const core::TaskRecord& record, const core::Admitted& admitted, Told& told);
  void OnDispatched(const core::TaskRecord& record, const core::Dispatched& dispatched, Told& told,
                    director::Moment now);
  void OnBounced(const core::Bounced& bounced, Told& told);
  void OnReturned(const core::TaskRecord& record, const core::Returned& returned, Told& told,
                  director::Moment now);
  void OnEnded(const core::TaskRecord& record, const core::Ended& ended, Told& told);
  void OnMarked(const core::AgentMarked& marked);
  // A start is no longer unanswered: `who` says how it ended.
  void NoteAnswer(const Told& told, const std::string& who) {
    if (told.state != core::TaskState::kDispatching || who != told.agent) return;
    rows_[told.agent].suspect_until = -absl::InfiniteDuration();
  }
  // Whether the dispatch ended because the lease of its start did. A start that returns uncounted,
  // after a backoff, or because its agent has begun a new life, came to nothing for another reason.
  bool LeaseOfStartEnded(const core::Returned& returned, const Told& told) const {
    const auto row = rows_.find(told.agent);
    return told.state == core::TaskState::kDispatching && returned.counts && !returned.reported &&
           returned.blame == core::Blame::kAgentFailedIt &&
           returned.backoff == absl::ZeroDuration() && row != rows_.end() &&
           row->second.instance_id == told.instance_id;
  }
  // No agent holds a task by leaving its start without an answer.
  void CheckLeasesOfStarts(director::Moment now) {
    const absl::Duration lease = settings_.engine.lease.redispatch_after + lease_extension_;
    for (const auto& [id, told] : told_) {
      if (told.state == core::TaskState::kDispatching &&
          now.monotonic > std::max(told.dispatched_at, epoch_began_at_) + lease) {
        return Fail(told.agent + " holds " + ToString(id) + " beyond the lease of its start");
      }
    }
  }
  bool CouldNotBegin(const core::TaskRecord& record, const Told& told) const {
    return could_not_begin_.contains({record.queue_id, told.dispatch});
  }
  // Of a dispatch that is over, with what the disk says of it.
  template <class Change>
  void CheckCordon(const core::TaskRecord& record, const Change& change, bool reported,
                   const Told& told);
  void CheckFirstInLine(const Told& told, const std::string& agent, director::Moment now);
  // Whether so many tasks of its key are in flight that such a task may not start beside them.
  bool WaitsForOverlap(const std::optional<core::Overlap>& overlap) const;
  void CheckWorkConservation(const director::DirectorEngine& engine, director::Moment now);
  void CheckGauges(const director::DirectorEngine& engine, const Gauges& gauges);
  void CheckAgainstDisk(const director::DirectorEngine& engine, const test::MemoryDisk& disk);
  // Larger than every sequence number of a live task.
  uint64_t BackOfLine() const;
  uint64_t Pending() const;

  const Settings& settings_;
  const Timeline& timeline_;
  std::ostream* const log_;
  std::string failure_;
  core::StableHash hash_;
  Counts counts_;

  std::map<core::QueueId, Told> told_;
  std::map<core::QueueId, core::TaskState> forgotten_;
  // Pending tasks that were dropped for the newcomer whose record comes next.
  uint64_t dropped_for_next_ = 0;
  // Places that were held without a task after the last turn.
  uint64_t tickets_ = 0;
  uint64_t epoch_ = 0;
  // Since the world began.
  uint64_t dispatches_ = 0;
  std::map<std::pair<std::string, std::string>, core::QueueId> by_request_;
  std::set<core::QueueId> cancel_acknowledged_;
  // By call: when it came, in the order of all that came; of those let in, the last to come.
  std::map<uint64_t, uint64_t> waiting_;
  uint64_t last_let_in_ = 0;
  uint64_t knocks_ = 0;
  // By task: which agents run a process of it.
  std::map<core::QueueId, std::set<std::pair<std::string, core::FenceToken>>> processes_;
  // Tasks and dispatch numbers.
  std::set<std::pair<core::QueueId, uint64_t>> could_not_begin_;
  // By agent.
  std::map<std::string, Row> rows_;
  // By token: the time that its first copy carried.
  std::map<core::FenceToken, absl::Duration> start_times_;
  absl::Duration kicked_at_ = -absl::InfiniteDuration();
  absl::Duration epoch_began_at_ = -absl::InfiniteDuration();
  // How much longer leases last since the director said that it goes away.
  absl::Duration lease_extension_ = {};
};

// What the agents of a world can do: the same for the agents and for the referee.
std::map<std::string, std::string> LabelsOfAgent(const std::string& name);

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_REFEREE_H_
