#ifndef CALLBOARD_LIBS_CORE_LIFE_H_
#define CALLBOARD_LIBS_CORE_LIFE_H_

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
#include "libs/base/copy_on_write.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/core/trace_context.h"

namespace callboard::core {

// A task that an agent was too busy for goes to the back of the line; from this time on it keeps
// its place, so that it gets its turn.
inline constexpr uint32_t kKeepsPlaceFromBounce = 5;

// What of a spec the director decides by, and many tasks have in common.
struct Terms {
  std::string identity;
  TaskSource source = TaskSource::kApi;
  std::string source_job;
  std::string job_type;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> required_labels;
  std::string lane;
  std::string fairness_key;
  absl::Duration timeout;
  uint32_t max_attempts = 0;
  std::vector<RetryRule> retry_on;
  OnAgentLost on_agent_lost = OnAgentLost::kFail;
  std::optional<Overlap> overlap;

  friend bool operator==(const Terms&, const Terms&) = default;
  template <class H>
  friend H AbslHashValue(H h, const Terms& terms) {
    // The rest seldom differs where these do not.
    return H::combine(std::move(h), terms.identity, terms.source_job, terms.labels, terms.lane,
                      terms.fairness_key, terms.timeout, terms.max_attempts);
  }
};

// Features of the Session that an agent has to announce to get such a task. Version 1 of the
// Session has everything that tasks can ask for so far; a field that needs more adds the name of
// its feature here.
std::set<std::string> FeaturesNeededBy(const Terms& terms);

// The terms that tasks have, each kind once.
class TermsPool {
 public:
  base::CopyOnWrite<Terms> Get(Terms terms);
  // Drops them if nobody has them any more.
  void Release(const Terms& terms);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(const base::CopyOnWrite<Terms>& terms) const { return absl::HashOf(*terms); }
    size_t operator()(const Terms& terms) const { return absl::HashOf(terms); }
  };
  struct Eq {
    using is_transparent = void;
    bool operator()(const base::CopyOnWrite<Terms>& a, const base::CopyOnWrite<Terms>& b) const {
      return a == b;
    }
    bool operator()(const base::CopyOnWrite<Terms>& a, const Terms& b) const { return *a == b; }
  };
  absl::flat_hash_set<base::CopyOnWrite<Terms>, Hash, Eq> all_;
};

// What the dispatches of a task have left behind.
struct Tries {
  // Of the current or last one.
  std::string agent;
  std::string agent_url;
  std::string instance_id;
  uint64_t director_epoch = 0;
  absl::Time dispatched_at = absl::InfinitePast();
  // Whether that came so long after the one before that it is a trace of its own.
  bool begins_trace = false;
  // When it came into the state that it is in, or ended from.
  absl::Time since = absl::InfinitePast();
  uint32_t busy_rejections = 0;
  // Number of the BUSY event that the next one may take the place of; 0 when something else has
  // happened since.
  uint64_t last_busy = 0;
  // Agents that it is better not tried on again, and those that were lost while it ran.
  std::set<std::string> failed_on;
  std::set<std::string> took_down;
  absl::Duration backoff;
  std::optional<absl::Time> not_before;
  std::string last_error;
  std::optional<absl::Time> cancel_requested_at;
  // The agent of the last dispatch that is over and of which something may have run; empty before.
  std::string ran_on;
  // The dispatches whose result was accepted, each of which was an attempt.
  std::set<DispatchNumber> reported;
  // The last dispatch whose result came too late; 0 for none.
  DispatchNumber orphaned;

  friend bool operator==(const Tries&, const Tries&) = default;
};

// Everything about a task that the director decides by. Its records determine it: the same live and
// after a restart. What only its users look at stays in them (TaskFrom()).
//
//   pending ──► dispatching ──► working ──► completed | failed | cancelled
//      ▲             │             │
//      └─────────────┴─────────────┘  returned
struct Life {
  QueueId queue_id;
  base::CopyOnWrite<Terms> terms;
  std::string request_id;
  std::string session_id;
  absl::Time earliest_start_at = absl::InfinitePast();
  absl::Time deadline_at = absl::InfiniteFuture();
  Fingerprint fingerprint = {};
  absl::Time submitted_at = absl::InfinitePast();
  absl::Time created_at = absl::InfinitePast();
  // The future while it is live.
  absl::Time finished_at = absl::InfiniteFuture();
  // Number of its last record, number of the event in it, and what that said.
  uint64_t events = 0;
  uint64_t event_number = 0;
  TaskEventKind last_event = TaskEventKind::kSubmitted;
  TaskState state = TaskState::kPending;
  // Its place in line; in flight, the one it would return to.
  uint64_t sequence = 0;
  // The first place it had, which never changes: the order within its session.
  uint64_t admitted = 0;
  // The span of its submit.
  SpanContext trace;
  // The current or last one; 0 before the first.
  DispatchNumber dispatch;
  uint32_t attempts = 0;
  base::CopyOnWrite<Tries> tries;

  bool is_pending() const { return state == TaskState::kPending; }
  bool is_in_flight() const {
    return state == TaskState::kDispatching || state == TaskState::kWorking;
  }
  bool is_ended() const { return !is_pending() && !is_in_flight(); }
  bool is_cancel_requested() const { return tries->cancel_requested_at.has_value(); }
  // When it came into its state. REQUIRES: it is live.
  absl::Time since() const { return dispatch == DispatchNumber() ? created_at : tries->since; }
  // The last agent on which something of it may have run; empty when nothing has.
  const std::string& ran_on() const {
    return state == TaskState::kWorking ? tries->agent : tries->ran_on;
  }
  FenceToken token() const { return {queue_id, dispatch, tries->director_epoch}; }
  // The span of its current or last dispatch. REQUIRES: there was one.
  SpanContext dispatch_trace() const;

  friend bool operator==(const Life&, const Life&) = default;
};

// What forbids that `record` comes next in a life, for people: `is accepted while nobody was
// asked`. Empty when nothing does.
std::string WhyImpossible(const TaskRecord& record, const Life& life);

// The one way in which a task changes. Dies of what WhyImpossible() says: a decision that would
// break an invariant must not reach the store. Takes its terms from the pool.
void Apply(const TaskRecord& record, TermsPool& terms, Life& life);

// A task as its users see it, from its records; what depends on other tasks is left out: position
// and redriven_as. REQUIRES: all the records there are, oldest first, and at least one.
Task TaskFrom(absl::Span<const TaskRecord> records);

// What happened to a task, as its users see it. Its first record is two events: the submit arrived
// (number 1) and was admitted (number 2).
std::vector<TaskEvent> EventsFrom(absl::Span<const TaskRecord> records);

// Where tasks of a state are counted.
uint64_t& CountOf(StateCounts& counts, TaskState state);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_LIFE_H_
